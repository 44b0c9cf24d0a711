# A pipeline that fails although all is well. The window is from bash's first line to its last one: when
# it loses its turn there, and head starts, reads and goes, the next line's signal is SIGPIPE, and the
# status 141. It takes a millisecond.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "sigpipe";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./sigpipe.sh
    ];
  };

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "The first of some lines, by head";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "sigpipe";
  };
}
