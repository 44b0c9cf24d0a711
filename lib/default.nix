# rewind's Nix functions, for a nixpkgs.
{ pkgs }:

let
  inherit (pkgs) lib;

  machineParts = import ../vm-configs { inherit (pkgs) callPackage; };

  recorder = pkgs.callPackage ../python/recorder.nix { };

  # What is /bin/sh in Nix's sandbox, as nixpkgs builds Nix.
  shell = pkgs.busybox-sandbox-shell;

  defaults = import ./defaults.nix;

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

  runOptions = lib.attrNames (lib.functionArgs (makeRun { }));

  # Calls `toJob` with what is the job's of the arguments, and makeRun with the rest.
  withOptions =
    toJob: args:
    let
      given = lib.filter (name: args ? ${name}) runOptions;
    in
    makeRun (toJob (removeAttrs args runOptions)) (lib.getAttrs given args);
in
{
  /**
    The run of a derivation: a derivation itself, whose outputs say what happened (`out`) and hold
    what was made (`nars`). To build it realises the inputs of `drv`, and never `drv`.

    # Inputs

    `drv`
    : What is run. A fixed-output derivation, one for another system, and others that the machine
      is no place for, are refused.

    `name`, `schedule`, `epoch`, `seed`, `cores`, `memory`, `timeLimit`
    : Optional; what they mean, and are, stands in `defaults.nix`.

    # Type

    ```
    run :: { drv :: Derivation; ... } -> Derivation
    ```

    # Example

    ```nix
    checks.x86_64-linux.bank = rewind.lib.x86_64-linux.run {
      drv = bank;
      cores = 2;
    };
    ```
  */
  run = withOptions ({ drv }: jobs.fromDerivation drv);

  /**
    The same run, from what a .drv says: for a program that has read one. The arguments are those
    of `fromDrv` in `job.nix`, and the options of `run`.

    # Type

    ```
    runFromDrv :: { drv :: String; builder :: String; args :: [String]; ... } -> Derivation
    ```
  */
  runFromDrv = withOptions jobs.fromDrv;

  /**
    What is run, as the recorder is told it; see `job.nix`.

    # Type

    ```
    job :: Derivation -> Job
    ```
  */
  job = jobs.fromDerivation;

  /**
    The layers that hold what a job needs, lowest first; see `image.nix`.

    # Type

    ```
    image :: Inputs -> [Derivation]
    ```

    # Example

    ```nix
    image (job bank).inputs
    => [ «rewind-layer-toolchain» «rewind-layer-inputs» «rewind-layer-sources» ]
    ```
  */
  inherit image;

  /**
    The state that runs start from: the machine at the end of its boot, with `memory` MiB.

    # Type

    ```
    bootSnapshot :: { memory :: Int; } -> Derivation
    ```
  */
  inherit bootSnapshot;

  /**
    The machine's settings, a file, and with it all that the machine is.
  */
  inherit (machineParts) machine;

  /**
    The options of a run that is told none.
  */
  inherit defaults;

  /**
    What runs are made with: the machine's parts and the recorder.
  */
  packages = machineParts // {
    inherit recorder;
  };
}
