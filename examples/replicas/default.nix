# Both replicas are being rebuilt when somebody asks. Two windows have to be open at once, one in each of the
# threads that rebuild: it takes two stalls, and one is not enough.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "replicas";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./replicas.c
    ];
  };

  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "Two replicas that are rebuilt, and may be at the same time";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "replicas";
  };
}
