# A file that is gone for a moment. The window is in publish(), from unlink to rename: who opens the file in
# between finds none.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "replace";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./replace.c
    ];
  };

  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "A file that is removed before another one takes its name";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "replace";
  };
}
