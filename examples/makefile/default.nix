# A dependency that make is not told of. The window is in the recipe of version.h, from its start to
# sed's write: when it loses its turn there for as long as the compiler takes to look for the header,
# some 20 ms, there is none, or an empty one. It takes two jobs at a time: with `cores = 1`, as rewind
# has it when it is told nothing else, there is no window.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "makefile";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./VERSION
      ./main.c
    ];
  };

  enableParallelBuilding = true;

  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "A makefile that leaves out that a source includes a generated header";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "makefile";
  };
}
