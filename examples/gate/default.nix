# A lost wake-up. The window is in gate_wait(), from the look at `open` to the one at `changes`: who opens
# the gate in between wakes nobody, and the number that futex(2) compares is the new one already. Then
# nothing can run any more, and the run ends stalled.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "gate";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./gate.c
    ];
  };

  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "A gate on a futex whose opening is missed";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "gate";
  };
}
