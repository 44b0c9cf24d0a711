# The parts of init that need no machine: its NAR writer and its reader of parameters, built with
# the compiler's checks for addresses and undefined behaviour, and tested.
{
  stdenv,
  runCommand,
  python3,
}:

let
  init = ../../vm-configs/init;

  tree = runCommand "odd-tree" { } (builtins.readFile ./tree.sh);
in
stdenv.mkDerivation {
  name = "rewind-init-tests";

  __structuredAttrs = true;

  # Nix tells the build the NAR hash and size of each path in here.
  exportReferencesGraph.closure = [
    tree
    python3
  ];

  nativeBuildInputs = [ (python3.withPackages (ps: [ ps.pytest ])) ];

  src = ./.;

  buildPhase = ''
    runHook preBuild
    check="-std=gnu17 -g -O1 -Wall -Wextra -Werror -I${init} -fsanitize=address,undefined"
    check+=" -fno-sanitize-recover=all -static-libasan -static-libubsan"
    $CC $check -o write-nar write_nar.c fail.c ${init}/nar.c ${init}/io.c
    $CC $check -o show-params show_params.c fail.c ${init}/params.c ${init}/io.c
    runHook postBuild
  '';

  doCheck = true;

  # Init gives memory back to nobody when it ends: so does the reader of parameters.
  checkPhase = ''
    runHook preCheck
    export ASAN_OPTIONS=detect_leaks=0
    WRITE_NAR=$PWD/write-nar SHOW_PARAMS=$PWD/show-params python3 -m pytest -q -p no:cacheprovider
    runHook postCheck
  '';

  installPhase = ''
    runHook preInstall
    touch $out
    runHook postInstall
  '';
}
