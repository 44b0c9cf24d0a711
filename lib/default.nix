# rewind's Nix functions, for a nixpkgs.
{ pkgs }:

let
  inherit (pkgs) lib;

  machineParts = import ../vm-configs { inherit (pkgs) callPackage; };

  recorder = pkgs.callPackage ../python/recorder.nix { };

  searcher = pkgs.callPackage ../python/searcher.nix { };

  # What is /bin/sh in Nix's sandbox, as nixpkgs builds Nix.
  shell = pkgs.busybox-sandbox-shell;

  defaults = import ./defaults.nix;

  jobs = import ./job.nix { inherit lib; };

  image = pkgs.callPackage ./image.nix { inherit shell; };

  bootSnapshot = import ./boot-snapshot.nix {
    inherit recorder;
    inherit (machineParts) machine;
  };

  runs = import ./run.nix {
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

  searches = import ./search.nix {
    inherit lib searcher runs;
    inherit (machineParts) kernel;
    inherit (pkgs) runCommand;
  };

  # Calls `toJob` with what is the job's of the arguments, and `make` with the rest, which are some
  # of `options`.
  withOptions =
    make: options: toJob: args:
    let
      given = lib.filter (name: args ? ${name}) options;
    in
    make (toJob (removeAttrs args options)) (lib.getAttrs given args);
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
  run = withOptions runs.run runs.options ({ drv }: jobs.fromDerivation drv);

  /**
    The same run, from what a .drv says: for a program that has read one. The arguments are those
    of `fromDrv` in `job.nix`, and the options of `run`.

    # Type

    ```
    runFromDrv :: { drv :: String; builder :: String; args :: [String]; ... } -> Derivation
    ```
  */
  runFromDrv = withOptions runs.run runs.options jobs.fromDrv;

  /**
    The search for a schedule under which a derivation's build ends otherwise: a derivation whose
    output is a report (`report.txt`, `report.cbor`), and the traces of the two runs that the
    deciding position tells apart. It never fails because of what it finds.

    # Inputs

    `drv`
    : What is run.

    `schedules` (64), `from` (0), `all` (false), `ignoreOutputs` (false), `strategy` ("chance")
    : How many schedules are tried; the first step at which a perturbation may be; whether the
      search goes on after the first other outcome; whether an outcome is only how the job ends,
      whatever it made; what schedules are made of.

    `shards` (1)
    : How many derivations the schedules are spread over, for as many builders. The report is the
      same.

    The options of `run`
    : They are the unperturbed run's; `schedule` is part of every run of the search.

    # Attributes

    `unperturbed`
    : The run without the search's perturbations.

    `failing`, `passing`
    : The runs on both sides of the deciding position. Which these are is known when the search is
      done: to evaluate them builds it.

    # Type

    ```
    search :: { drv :: Derivation; schedules :: Int; ... } -> Derivation
    ```
  */
  search = withOptions searches.search searches.options ({ drv }: jobs.fromDerivation drv);

  /**
    The same search, from what a .drv says; see `runFromDrv`.
  */
  searchFromDrv = withOptions searches.search searches.options jobs.fromDrv;

  /**
    A search that fails, with its report, when it finds another outcome, or that the job fails
    whatever the schedule: a flake's check. The arguments are those of `search`, which is an attribute
    of it, as `unperturbed`, `failing` and `passing` are.

    # Type

    ```
    check :: { drv :: Derivation; schedules :: Int; ... } -> Derivation
    ```

    # Example

    ```nix
    checks.x86_64-linux.bank = rewind.lib.x86_64-linux.check { drv = bank; };
    ```
  */
  check = withOptions searches.check searches.options ({ drv }: jobs.fromDerivation drv);

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
    inherit recorder searcher;
  };
}
