# A lost update in a loop without a system call. The window is between the load and the store of
# `counter++`: a thread that loses its turn there takes back all that the other counted meanwhile.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "counter";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./counter.c
    ];
  };

  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "Two threads, one counter and no lock";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "counter";
  };
}
