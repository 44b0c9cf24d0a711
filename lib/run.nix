# A run: a job in the machine, under a schedule, and what happened.
#
# It is an ordinary derivation whose builder is the recorder (python/rewind/recorder), so its name
# is known before it runs, `nix build` makes it, `nix build --rebuild` checks that it happens
# again, and stores and caches share it. `out` has the manifest, the trace and the log; `nars` the
# NARs of what the job made. (An output called `outputs` would take the place of the attribute
# that lists a derivation's outputs, and Nix would not build it by its value.)
#
# The job is not an input of its run, and nothing of the job's inputs but the layers made of them:
# a run is there although the job was never built.
{
  lib,
  linkFarm,
  recorder,
  kernel,
  machine,
  image,
  bootSnapshot,
  shell,
  defaults,
}:

let
  # The longest that a store path's name can be.
  maxName = 211;

  prefix = "rewind-run-";

  checkName =
    given:
    let
      name = checkType "name" "a string" lib.isString given;
    in
    if name == "" then
      throw "rewind: a run's name cannot be empty"
    else if builtins.match "[-+._?=0-9a-zA-Z]+" name == null then
      throw "rewind: ${name} cannot be part of a store path's name: letters, digits and +-._?= can"
    else if lib.stringLength (prefix + name) > maxName then
      throw "rewind: ${name} is too long for a run's name"
    else
      name;

  # As nixpkgs has it: who names an output (`nix build .#run.nars`) means that one alone.
  specifyOutputs =
    drv:
    drv // lib.genAttrs drv.outputs (output: drv.${output} // { outputSpecified = true; });

  # Fails with a sentence unless `good value`.
  checkType =
    option: what: good: value:
    if good value then
      value
    else
      throw "rewind: ${option} is ${what}, not ${builtins.typeOf value}";

  checkInt =
    option: minimum: value:
    if checkType option "a whole number" lib.isInt value < minimum then
      throw "rewind: ${option} is at least ${toString minimum}, not ${toString value}"
    else
      value;

  # A job (lib/job.nix) and options (lib/defaults.nix) -> what its derivation says of a run
  attributes =
    job:
    {
      name ? job.name,
      schedule ? defaults.schedule,
      epoch ? defaults.epoch,
      seed ? defaults.seed,
      cores ? defaults.cores,
      memory ? defaults.memory,
      timeLimit ? defaults.timeLimit,
    }:
    let
      graphNames = lib.attrNames job.graphs;
      # Names that no other attribute of the run has.
      graphKey = lib.listToAttrs (
        lib.imap0 (index: graph: lib.nameValuePair graph "graph${toString index}") graphNames
      );
    in
    {
      inherit (job) system drv;

      __structuredAttrs = true;

      jobName = checkName name;
      job = job.file;
      layers = image job.inputs;
      exportReferencesGraph = lib.mapAttrs' (
        graph: roots: lib.nameValuePair graphKey.${graph} roots
      ) job.graphs;
      graphs = graphKey;

      settings = machine;
      memory = checkInt "memory" 1 memory;
      snapshot = bootSnapshot { inherit memory; };
      shell = builtins.unsafeDiscardStringContext "${shell}/bin/busybox";

      schedule = checkType "schedule" "a list of perturbations" lib.isList schedule;
      seed = checkType "seed" "a string" lib.isString seed;
      # The kernel's clock cannot be set to before the boot's start.
      epoch = checkInt "epoch" 1 epoch;
      cores = checkInt "cores" 1 cores;
      timeLimit = checkInt "timeLimit" 0 timeLimit;
    };
in
{
  inherit attributes checkInt checkType;

  # The names of the options.
  options = lib.attrNames (lib.functionArgs (attributes { }));

  # A job and options -> the run's derivation
  run =
    job: options:
    let
      given = attributes job options;
    in
    specifyOutputs (
      derivation (
        given
        // {
          name = prefix + given.jobName;

          builder = "${recorder}/bin/rewind-recorder";
          args = [ "record" ];

          outputs = [
            "out"
            "nars"
          ];

          # The manifest names the layers and the machine, the NARs have the paths of the job's
          # inputs in them; who reads a run needs none of these.
          unsafeDiscardReferences = {
            out = true;
            nars = true;
          };
        }
      )
    )
    // {
      # What it takes to make the run again, and to look into its machine: for caches.
      needs = linkFarm "rewind-needs-${given.jobName}" (
        {
          inherit recorder;
          inherit (given) job settings snapshot;
          # It has the kernel's debug information.
          kernel = kernel.dev;
        }
        // lib.listToAttrs (
          lib.imap0 (index: layer: lib.nameValuePair "layer${toString index}" layer) given.layers
        )
      );
    };
}
