# A file that is read while it is written. The window is in save(), from the fopen that empties the file
# to the fclose that writes it: an administrator who loses the turn there for a millisecond leaves the
# service, which has been told of a change, with an empty file, or half of one.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "config-reload";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./config-reload.c
    ];
  };

  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "A service that reads its configuration when it is half written";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "config-reload";
  };
}
