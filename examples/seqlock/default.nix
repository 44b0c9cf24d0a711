# Half an update is read. The window is in look(), from the first counter to the last one: an update in
# between is noticed by nobody, as the sequence number is not looked at again.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "seqlock";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./seqlock.c
    ];
  };

  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "A sequence lock whose reader does not look at the number again";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "seqlock";
  };
}
