# Looks into the machine of a run, with everything that rewind.inspect has: what each thread of the
# job's programs does is known beforehand.
{
  lib,
  bash,
  callPackage,
  coreutils,
  python3,
  # lib/
  rewind,
  # The guest's kernel.
  kernel,
}:

let
  run = rewind.run { drv = callPackage ./job.nix { }; };

  modules = lib.fileset.toSource {
    root = ../../python;
    fileset = lib.fileset.unions [
      ../../python/rewind/__init__.py
      ../../python/rewind/formats
      ../../python/rewind/inspect
      ../../python/rewind/machine
      ../../python/rewind/recorder
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
# It is told what a run's recorder is told, and so finds all that the machine is started with.
derivation (
  removeAttrs run.drvAttrs [
    "outputs"
    "unsafeDiscardReferences"
  ]
  // {
    name = "rewind-inspect-tests";
    builder = "${bash}/bin/bash";
    args = [
      "-euc"
      ''
        source "$NIX_ATTRS_SH_FILE"
        export PATH=${coreutils}/bin PYTHONPATH=${modules}
        export REWIND_ATTRIBUTES=$NIX_ATTRS_JSON_FILE
        export REWIND_TRACE=${run}/trace REWIND_VMLINUX=${kernel.dev}/vmlinux
        cp -r ${./.} tests
        cd tests
        ${python}/bin/python3 -B -m pytest -q -p no:cacheprovider test_inspect.py
        # Not touch: it closes its standard output before it ends, for which Nix kills a builder.
        : > "''${outputs[out]}"
      ''
    ];
  }
)
