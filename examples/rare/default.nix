# An increment that is lost, if a thread loses its turn in the six instructions it takes, of the
# 36,000 that come before and after.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "rare";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./rare.c
    ];
  };

  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "Two threads, a long computation each, and one unlocked increment";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "rare";
  };
}
