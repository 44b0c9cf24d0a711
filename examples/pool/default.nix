# A use after free. The window is from the result of a worker's job, which is the last thing that
# the main thread waits for, to the store that marks the job in the queue: a worker that loses its
# turn there writes into memory that the shutdown has freed, and dies of signal 11.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "pool";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./pool.c
    ];
  };

  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "A thread pool that frees its queue too early";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "pool";
  };
}
