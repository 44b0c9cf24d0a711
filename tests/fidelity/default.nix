# Builds derivations twice, by Nix and in the machine, and compares.
#
#   same drv                every output has the same NAR hash
#   outcome { … }           a build that fails: what the machine says of it
{
  lib,
  python3,
  runCommand,
  stdenvNoCC,
  rewind,
}:

let
  python = python3.withPackages (ps: [ ps.cbor2 ]);
in
{
  same =
    drv:
    let
      outputs = drv.outputs or [ "out" ];
    in
    stdenvNoCC.mkDerivation {
      name = "fidelity-${drv.name}";
      __structuredAttrs = true;
      exportReferencesGraph = lib.genAttrs' outputs (
        output: lib.nameValuePair "output-${output}" [ "${drv.${output}}" ]
      );
      built = lib.genAttrs outputs (output: "${drv.${output}}");
      run = "${rewind.run { inherit drv; }}";
      buildCommand = ''
        ${python}/bin/python3 ${./same.py}
        echo ok > "$out"
      '';
    };

  outcome =
    {
      drv,
      # what manifest.cbor says of how it ended
      outcome,
      # a fixed string that the log must have
      log ? "",
      # further options of the run
      options ? { },
    }:
    let
      run = rewind.run ({ inherit drv; } // options);
    in
    runCommand "outcome-${drv.name}"
      {
        expected = builtins.toJSON outcome;
        inherit log;
      }
      ''
        ${python}/bin/python3 ${./outcome.py} ${run}/manifest.cbor
        if [ -n "$log" ] && ! grep -qF -- "$log" ${run}/log; then
          tail -n 20 ${run}/log
          echo "the log has no: $log"
          exit 1
        fi
        echo ok > $out
      '';
}
