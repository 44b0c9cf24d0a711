# A search: a job under many schedules, and the position that decides how it ends.
#
# A derivation as a run is one: its name is known before it is made, builders and caches share it,
# and it has everything in it that its report depends on. Its builder, the searcher
# (python/rewind/search), is told what a recorder is told of the unperturbed run, and makes all runs of
# the search within the one build.
{
  lib,
  runCommand,
  searcher,
  kernel,
  plugin,
  # lib/run.nix
  runs,
  # lib/bounds.nix
  bounds,
}:

let
  names = lib.attrNames bounds;

  checkSeconds =
    { seconds, nonce, ... }:
    if seconds == null then
      null
    else if !(lib.isInt seconds || lib.isFloat seconds) || seconds <= 0 then
      throw "rewind: seconds is a number above 0"
    else if nonce == null then
      throw "rewind: a search with a limit of seconds is one of its kind: it takes a nonce"
    else
      seconds;

  # The attributes of a search's derivation and of its shards'.
  attributes =
    job: args:
    let
      given = bounds // lib.filterAttrs (name: _: bounds ? ${name}) args;
      bool = option: runs.checkType option "true or false" lib.isBool given.${option};
    in
    runs.attributes job (removeAttrs args names)
    // {
      schedules = runs.checkInt "schedules" 0 given.schedules;
      from = runs.checkInt "from" 0 given.from;
      all = bool "all";
      ignoreOutputs = bool "ignoreOutputs";
      strategy = runs.checkType "strategy" "a string" lib.isString given.strategy;
      shards = runs.checkInt "shards" 1 given.shards;
      seconds = checkSeconds given;
      inherit (given) nonce;

      builder = lib.getExe searcher;
      outputs = [ "out" ];
      kernel = "${kernel.dev}/vmlinux";
      races = "${plugin}/lib/races.so";

      # Traces are full of paths, which whoever reads them does not need.
      unsafeDiscardReferences.out = true;
    };
in
rec {
  options = runs.options ++ names;

  # A job (lib/job.nix) and options -> the search's derivation
  search =
    job: args:
    let
      given = attributes job args;
      shard =
        number:
        derivation (
          given
          // {
            name = "rewind-search-${given.jobName}-shard-${toString number}";
            shard = number;
          }
        );
      result = derivation (
        given
        // {
          name = "rewind-search-${given.jobName}";
          shard = null;
          parts = lib.optionals (given.shards > 1) (lib.genList shard given.shards);
        }
      );
      runArgs = removeAttrs args names;
      found =
        side:
        let
          file = "${result}/${side}.json";
        in
        if builtins.pathExists file then
          runs.run job (runArgs // lib.importJSON file)
        else
          throw "rewind: the search found no two outcomes of ${given.jobName}";
    in
    result
    // {
      unperturbed = runs.run job runArgs;
      failing = found "failing";
      passing = found "passing";
      meta.description = "Search for a schedule under which ${given.jobName} ends otherwise";
    };

  # A job and options -> a derivation that fails if the job's outcome depends on the schedule
  check =
    job: args:
    let
      result = search job args;
      inherit (result) jobName;
    in
    runCommand "rewind-check-${jobName}"
      {
        passthru = {
          search = result;
          inherit (result) unperturbed failing passing;
        };
        meta.description = "${jobName} ends in the same way under every schedule that was tried";
      }
      ''
        cat ${result}/report.txt
        if [ -e ${result}/failing.json ]; then
          echo
          echo "The attributes failing and passing of this check are the two runs, search the report."
        fi
        if [ ! -e ${result}/clean ]; then
          exit 1
        fi
        touch $out
      '';
}
