# Goes to points of a run by keyframes, and on from there: the rest of the run is to be the same.
{
  lib,
  bash,
  coreutils,
  python3,
  # lib/
  rewind,
  # A program with threads, whose build takes seconds.
  bank,
}:

let
  run = rewind.run {
    drv = bank;
    # In the compiler and, by an offset that goes over many a step, in what follows.
    schedule = [
      {
        at = "9000+41";
        stall = 1000000;
      }
      {
        at = "12000+40000000";
        reschedule = true;
      }
    ];
  };

  modules = lib.fileset.toSource {
    root = ../../python;
    fileset = lib.fileset.unions [
      ../../python/rewind/__init__.py
      ../../python/rewind/formats
      ../../python/rewind/inspect
      ../../python/rewind/machine
      ../../python/rewind/recorder
      ../../python/rewind/replay
    ];
  };

  python = python3.withPackages (ps: [
    ps.attrs
    ps.cbor2
    ps.pyelftools
    ps.pytest
    ps.zstandard
  ]);
in
# It is told what a run's recorder is told, and so finds all that the machine is started with.
derivation (
  removeAttrs run.drvAttrs [
    "outputs"
    "unsafeDiscardReferences"
  ]
  // {
    name = "rewind-replay-tests";
    builder = "${bash}/bin/bash";
    args = [
      "-euc"
      ''
        source "$NIX_ATTRS_SH_FILE"
        export PATH=${coreutils}/bin PYTHONPATH=${modules}
        export REWIND_ATTRIBUTES=$NIX_ATTRS_JSON_FILE REWIND_TRACE=${run}/trace
        ${python}/bin/python3 -B -m pytest -q -p no:cacheprovider ${./.}/test_replay.py
        # Not touch: it closes its standard output before it ends, for which Nix kills a builder.
        : > "''${outputs[out]}"
      ''
    ];
  }
)
