# A table that is handed out before it is filled. The window is in crc_table(), from the store of its
# address to the last of its entries: whoever comes meanwhile sees an address, and takes no lock.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "once";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./once.c
    ];
  };

  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "Double-checked locking around a table that is not complete yet";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "once";
  };
}
