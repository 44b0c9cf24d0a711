# ABA. The window is in take(), from the look at the top of the stack to the compare-and-swap: when the
# top has been away and is back meanwhile, what was below it may be in use.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "stack";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./stack.c
    ];
  };

  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "A lock-free stack of buffers, one of which is handed out twice";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "stack";
  };
}
