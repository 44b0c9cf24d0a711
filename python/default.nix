# The command line, `rewind`. No run depends on it: of rewind's Nix functions and of what they are
# made from it carries a copy (`source`), which names the same runs as the flake does, and evaluates
# that with the nixpkgs it was made with.
{
  lib,
  python3,
  python3Packages,
  runCommand,
  elfutils,
  erofs-utils,
  gdb,
  installShellFiles,
  ruff,
  # path of nixpkgs
  nixpkgs,
  # what watches replays, made with the QEMU that runs are made with
  plugin,
  # lib/'s, for who has the package and wants a check that belongs to it
  functions ? { },
}:

let
  inherit (lib) fileset;

  pynixutil = python3Packages.callPackage ./pynixutil.nix { };

  source = fileset.toSource {
    root = ../.;
    fileset = fileset.unions [
      ../lib
      ../vm-configs
      ./builder.nix
      ./recorder.nix
      ./roots.nix
      ./searcher.nix
      ./rewind/__init__.py
      ./rewind/analysis
      ./rewind/formats
      ./rewind/inspect
      ./rewind/machine
      ./rewind/recorder
      ./rewind/replay
      ./rewind/roots
      ./rewind/search
    ];
  };

  src = fileset.toSource {
    root = ./.;
    fileset = fileset.unions [
      ./pyproject.toml
      ./rewind
      ./tests
    ];
  };

  dependencies = with python3Packages; [
    attrs
    cbor2
    click
    drgn
    pyelftools
    pynixutil
    qemu-qmp
    rich
    zstandard
  ];
in
python3Packages.buildPythonApplication {
  pname = "rewind";
  version = "0.1.0";
  pyproject = true;

  inherit src dependencies;

  build-system = [ python3Packages.setuptools ];

  nativeBuildInputs = [ installShellFiles ];

  makeWrapperArgs = [
    "--set-default"
    "REWIND_SOURCE"
    "${source}"
    "--set-default"
    "REWIND_NIXPKGS"
    "${nixpkgs}"
    # Behind what the user has: rewind gdb, and debuginfod-find.
    "--suffix"
    "PATH"
    ":"
    (lib.makeBinPath [
      elfutils
      gdb
    ])
    # The machine has the image that it makes: not just anybody's.
    "--set-default"
    "REWIND_MKFS_EROFS"
    "${erofs-utils}/bin/mkfs.erofs"
    "--set-default"
    "REWIND_PLUGIN"
    "${plugin}/lib/watch.so"
    "--set-default"
    "REWIND_RACES_PLUGIN"
    "${plugin}/lib/races.so"
  ];

  # click writes them; "sh" is not among the shells it knows.
  postInstall = ''
    installShellCompletion --cmd rewind \
      --bash <(_REWIND_COMPLETE=bash_source $out/bin/rewind) \
      --fish <(_REWIND_COMPLETE=fish_source $out/bin/rewind) \
      --zsh <(_REWIND_COMPLETE=zsh_source $out/bin/rewind)
  '';

  nativeCheckInputs = with python3Packages; [
    erofs-utils
    hypothesis
    pytestCheckHook
  ];

  pythonImportsCheck = [ "rewind.cli" ];

  passthru = functions // {
    inherit source;

    # Not in the check phase: whether rewind can be installed is not for the next version of a
    # linter to decide.
    tests = {
      style = runCommand "rewind-style" { nativeBuildInputs = [ ruff ]; } ''
        cd ${src}
        ruff check --no-cache .
        ruff format --no-cache --check .
        touch $out
      '';

      types =
        runCommand "rewind-types"
          {
            nativeBuildInputs = [
              (python3.withPackages (ps: dependencies ++ [ ps.mypy ]))
            ];
          }
          ''
            cd ${src}
            mypy --cache-dir=/dev/null rewind
            touch $out
          '';
    };
  };

  meta = {
    description = "Replayable runs of Nix builds, down to which thread ran when";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "rewind";
  };
}
