# A lost wake-up. The window is from the look at `ready` to the inside of pthread_cond_wait: when the
# waiter loses its turn there for a millisecond, the signal comes while nobody is waiting yet. Then
# nothing can run any more, and the run ends stalled.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "waiter";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./waiter.c
    ];
  };

  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "A condition variable that is signalled without its lock";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "waiter";
  };
}
