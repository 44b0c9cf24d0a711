# A deadlock. The window is from a philosopher's first fork to the second one: while one thinks there,
# the other takes the fork that it needs. Nothing can run then, and the run ends stalled.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "philosophers";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./philosophers.c
    ];
  };

  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "Two philosophers who deadlock over two forks";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "philosophers";
  };
}
