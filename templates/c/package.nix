{ lib, stdenv }:

stdenv.mkDerivation {
  pname = "tally";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./tally.c
    ];
  };

  doCheck = true;
  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "Counts votes in two threads";
    license = lib.licenses.mit;
    mainProgram = "tally";
    platforms = [ "x86_64-linux" ];
  };
}
