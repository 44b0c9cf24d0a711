# Replays with the plugin that watches, in all that it can do: they are the runs, to the byte, and
# where it stops a machine it is as the device stops it there.
{
  lib,
  bash,
  coreutils,
  python3,
  runCommand,
  # lib/
  rewind,
  # The guest's kernel, and the plugin.
  kernel,
  plugin,
  # Programs whose builds take seconds, by name.
  jobs,
  # Others, of which only the analysis of races is tried.
  analysed,
}:

let
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
    ps.drgn
    ps.pyelftools
    ps.pytest
    ps.zstandard
  ]);

  # It is told what a run's recorder is told, and so finds all that the machine is started with.
  watch =
    arguments: name: drv:
    let
      run = rewind.run { inherit drv; };
    in
    derivation (
      removeAttrs run.drvAttrs [
        "outputs"
        "unsafeDiscardReferences"
      ]
      // {
        name = "rewind-watch-tests-${name}";
        builder = "${bash}/bin/bash";
        args = [
          "-euc"
          ''
            source "$NIX_ATTRS_SH_FILE"
            export PATH=${coreutils}/bin PYTHONPATH=${modules}
            export REWIND_ATTRIBUTES=$NIX_ATTRS_JSON_FILE REWIND_TRACE=${run}/trace
            export REWIND_VMLINUX=${kernel.dev}/vmlinux REWIND_PLUGIN=${plugin}/lib/watch.so
            export REWIND_RACES_PLUGIN=${plugin}/lib/races.so
            ${python}/bin/python3 -B -m pytest -q -p no:cacheprovider ${./.}/test_watch.py ${arguments}
            # Not touch: it closes its standard output before it ends, for which Nix kills a builder.
            : > "''${outputs[out]}"
          ''
        ];
      }
    );
in
runCommand "rewind-watch-tests" { } ''
  cat ${
    toString (
      lib.mapAttrsToList (watch "") jobs ++ lib.mapAttrsToList (watch "-k the_analysis") analysed
    )
  } > $out
''
