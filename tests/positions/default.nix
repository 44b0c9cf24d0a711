# Named positions: a schedule of them makes, to the byte, the run that the same perturbations make at
# the steps where they came; from the boot snapshot and from keyframes.
{
  lib,
  bash,
  coreutils,
  python3,
  # lib/
  rewind,
}:

let
  modules = lib.fileset.toSource {
    root = ../../python;
    fileset = lib.fileset.unions [
      ../../python/rewind/__init__.py
      ../../python/rewind/analysis
      ../../python/rewind/formats
      ../../python/rewind/inspect
      ../../python/rewind/machine
      ../../python/rewind/recorder
      ../../python/rewind/replay
      ../../python/rewind/search
    ];
  };

  python = python3.withPackages (ps: [
    ps.attrs
    ps.cbor2
    ps.drgn
    ps.pyelftools
    ps.pytest
    ps.zstandard
  ]);
in
# A program that starts two threads, and after which of their calls and instructions something is
# to happen.
{
  name,
  drv,
  call,
  instructions,
}:

# It is told what a run's recorder is told, and so finds all that the machine is started with.
derivation (
  removeAttrs (rewind.run { inherit drv; }).drvAttrs [
    "outputs"
    "unsafeDiscardReferences"
  ]
  // {
    name = "rewind-positions-${name}";
    builder = "${bash}/bin/bash";
    args = [
      "-euc"
      ''
        source "$NIX_ATTRS_SH_FILE"
        export PATH=${coreutils}/bin PYTHONPATH=${modules}
        export REWIND_ATTRIBUTES=$NIX_ATTRS_JSON_FILE
        export REWIND_CALL=${toString call} REWIND_INSTRUCTIONS=${toString instructions}
        ${python}/bin/python3 -B -m pytest -q -p no:cacheprovider ${./.}/test_positions.py
        # Not touch: it closes its standard output before it ends, for which Nix kills a builder.
        : > "''${outputs[out]}"
      ''
    ];
  }
)
