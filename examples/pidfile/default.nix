# A file that is read before it is written. The window is from the fopen that makes the file to the fflush
# that writes it: when check.sh sees the file in between, there is no number in it, and its signal goes
# to nobody.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "pidfile";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./check.sh
      ./pidfile.c
    ];
  };

  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "A daemon whose pid file is there before the pid is";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "pidfile";
  };
}
