# rewind's Nix functions, for a nixpkgs.
#
#   run { drv = bank; cores = 2; }      the run of a derivation, as a derivation
#   runFromDrv { drv = "/nix/store/….drv"; builder = …; … }
#                                       the same from what a .drv says (lib/job.nix, fromDrv)
#   job bank                            what is run, as the recorder is told it
#   image (job bank).inputs             the layers that hold what a job needs
#   bootSnapshot { memory = 2048; }     the state that runs start from
#   machine                             the machine's settings, and with them the machine
#   defaults                            the options of a run that is told none
{ pkgs }:

let
  inherit (pkgs) lib;

  machineParts = pkgs.callPackage ../vm-configs { };

  recorder = pkgs.callPackage ../python/recorder.nix { };

  # What is /bin/sh in Nix's sandbox as nixpkgs builds Nix.
  shell = pkgs.busybox-sandbox-shell;

  jobs = import ./job.nix { inherit lib; };

  image = pkgs.callPackage ./image.nix { inherit shell; };

  bootSnapshot = import ./boot-snapshot.nix {
    inherit recorder;
    inherit (machineParts) machine;
  };

  makeRun = import ./run.nix {
    inherit
      lib
      recorder
      image
      bootSnapshot
      shell
      defaults
      ;
    inherit (machineParts) machine;
  };

  defaults = import ./defaults.nix;

  runOptions = lib.attrNames (lib.functionArgs (makeRun { }));

  # Calls `toJob` with what is the job's of the arguments, and the run with the rest.
  withOptions =
    toJob: args:
    let
      given = lib.filter (name: args ? ${name}) runOptions;
    in
    makeRun (toJob (removeAttrs args runOptions)) (lib.getAttrs given args);
in
{
  inherit image bootSnapshot defaults;
  inherit (machineParts) machine;

  job = jobs.fromDerivation;
  jobFromDrv = jobs.fromDrv;

  run = withOptions ({ drv }: jobs.fromDerivation drv);
  runFromDrv = withOptions jobs.fromDrv;

  packages = machineParts // {
    inherit recorder;
  };
}
