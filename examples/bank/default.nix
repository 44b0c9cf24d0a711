# A program with a race, and a package whose check meets it: now and then a deposit is lost and
# the build fails. On an unperturbed machine it hardly ever does.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "bank";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./bank.c
    ];
  };

  # The source lines of a step are found by way of these.
  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "Two tellers, one account and no lock";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "bank";
  };
}
