# The command line, `rewind`. No run depends on it: of rewind's Nix functions and of what they are
# made from it carries a copy (`source`), which names the same runs as the flake does, and evaluates
# that with the nixpkgs it was made with.
{
  lib,
  python3Packages,
  installShellFiles,
  ruff,
  # path of nixpkgs
  nixpkgs,
}:

let
  inherit (lib) fileset;

  pynixutil = python3Packages.callPackage ./pynixutil.nix { };

  source = fileset.toSource {
    root = ../.;
    fileset = fileset.unions [
      ../lib
      ../vm-configs
      ./recorder.nix
      ./rewind/__init__.py
      ./rewind/formats
      ./rewind/machine
      ./rewind/recorder
    ];
  };
in
python3Packages.buildPythonApplication {
  pname = "rewind";
  version = "0.1.0";
  pyproject = true;

  src = fileset.toSource {
    root = ./.;
    fileset = fileset.unions [
      ./pyproject.toml
      ./rewind
      ./tests
    ];
  };

  build-system = [ python3Packages.setuptools ];

  dependencies = [
    pynixutil
  ]
  ++ (with python3Packages; [
    attrs
    cbor2
    click
    pyelftools
    qemu-qmp
    rich
    zstandard
  ]);

  nativeBuildInputs = [ installShellFiles ];

  makeWrapperArgs = [
    "--set-default"
    "REWIND_SOURCE"
    "${source}"
    "--set-default"
    "REWIND_NIXPKGS"
    "${nixpkgs}"
  ];

  # click writes them; "sh" is not among the shells it knows.
  postInstall = ''
    installShellCompletion --cmd rewind \
      --bash <(_REWIND_COMPLETE=bash_source $out/bin/rewind) \
      --fish <(_REWIND_COMPLETE=fish_source $out/bin/rewind) \
      --zsh <(_REWIND_COMPLETE=zsh_source $out/bin/rewind)
  '';

  nativeCheckInputs = [
    ruff
  ]
  ++ (with python3Packages; [
    hypothesis
    mypy
    pytestCheckHook
  ]);

  preCheck = ''
    ruff check .
    mypy rewind
  '';

  pythonImportsCheck = [ "rewind.cli" ];

  passthru = { inherit source; };

  meta = {
    description = "Replayable runs of Nix builds, down to which thread ran when";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "rewind";
  };
}
