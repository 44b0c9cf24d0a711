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

  inherit (pkgs.callPackage ./image.nix { inherit shell; }) image extras;

  roots = import ./root.nix {
    inherit lib;
    inherit (pkgs) erofs-utils;
    roots = pkgs.callPackage ../python/roots.nix { };
  };

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
    inherit (machineParts) kernel machine;
    inherit (pkgs) linkFarm;
  };

  searches = import ./search.nix {
    inherit lib searcher runs;
    bounds = import ./bounds.nix;
    inherit (machineParts) kernel plugin;
    inherit (pkgs) runCommand;
  };

  # A function called `name` of one attribute set: calls `toJob` with what is the job's of it, and
  # `make` with the rest, which are some of `options`. As a function that lists its arguments would, it
  # refuses others.
  withOptions =
    name: make: options: toJob: args:
    let
      # Whether each can be left out.
      jobArgs = lib.functionArgs toJob;
      known = lib.attrNames jobArgs ++ options;
      unknown = lib.attrNames (removeAttrs args known);
      missing = lib.filter (arg: !jobArgs.${arg} && !args ? ${arg}) (lib.attrNames jobArgs);
    in
    if unknown != [ ] then
      throw "rewind: ${name} called with unexpected argument '${lib.head unknown}': it takes ${lib.concatStringsSep ", " known}"
    else if missing != [ ] then
      throw "rewind: ${name} called without required argument '${lib.head missing}'"
    else
      make (toJob (removeAttrs args options)) (
        lib.getAttrs (lib.filter (option: args ? ${option}) options) args
      );

  fromValue = { drv }: jobs.fromDerivation drv;
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
  run = withOptions "run" runs.run runs.options fromValue;

  /**
    The same run, from what a .drv says: for a program that has read one. The arguments are those
    of `fromDrv` in `job.nix`, and the options of `run`.

    # Type

    ```
    runFromDrv :: { drv :: String; builder :: String; args :: [String]; ... } -> Derivation
    ```
  */
  runFromDrv = withOptions "runFromDrv" runs.run runs.options jobs.fromDrv;

  /**
    The search for a schedule under which a derivation's build ends otherwise: a derivation whose
    output is a report (`report.txt`, `report.cbor`), and the traces of the two runs that the
    deciding position tells apart. It never fails because of what it finds.

    # Inputs

    `drv`
    : What is run.

    `schedules` (64)
    : How many schedules are tried besides the unperturbed one.

    `from` (0)
    : The first step at which a perturbation may be.

    `all` (false)
    : Whether the search goes on after the first other outcome.

    `ignoreOutputs` (false)
    : Whether an outcome is only how the job ends, whatever it made.

    `strategy` ("directed")
    : What schedules are made of: "directed" begins with stalls that put conflicting accesses to memory
      into another order, "windows" with such where windows are likely, and "chance" draws all.

    `shards` (1)
    : How many derivations the schedules are spread over, for as many builders. The report is the
      same.

    `seconds`, `nonce` (null)
    : The host's time that looking for a schedule may take, and a string that no other search has:
      what such a search finds depends on the host. They are there for `rewind check --time`.

    The options of `run`
    : They are the unperturbed run's. The `schedule` is part of every run of the search, and
      schedules have a time limit of their own: ten times the guest time of the unperturbed run,
      and at least 60 s.

    # Attributes

    `unperturbed`
    : The run without the search's perturbations.

    `failing`, `passing`
    : The runs on both sides of the deciding position. Which these are is known when the search is
      done: to evaluate them builds it. If all outcomes are the same they throw.

    # Type

    ```
    search :: { drv :: Derivation; schedules :: Int; ... } -> Derivation
    ```

    # Example

    ```nix
    packages.x86_64-linux.bank-search = rewind.lib.x86_64-linux.search {
      drv = bank;
      schedules = 1000;
      all = true;
      shards = 8;
    };
    ```
  */
  search = withOptions "search" searches.search searches.options fromValue;

  /**
    The same search, from what a .drv says; see `runFromDrv`.

    # Type

    ```
    searchFromDrv :: { drv :: String; builder :: String; args :: [String]; ... } -> Derivation
    ```
  */
  searchFromDrv = withOptions "searchFromDrv" searches.search searches.options jobs.fromDrv;

  /**
    A derivation that fails, with a search's report as its log, when the search has found another
    outcome, or that the job fails whatever the schedule: a flake's check.

    # Inputs

    Those of `search`.

    # Attributes

    `search`
    : The search.

    `unperturbed`, `failing`, `passing`
    : The search's runs.

    # Type

    ```
    check :: { drv :: Derivation; schedules :: Int; ... } -> Derivation
    ```

    # Example

    ```nix
    checks.x86_64-linux.bank = rewind.lib.x86_64-linux.check { drv = bank; };
    ```
  */
  check = withOptions "check" searches.check searches.options fromValue;

  /**
    A command in a root directory that has nothing to do with Nix, as a derivation for `run`,
    `search` and `check`; Nix itself cannot build it. See docs/roots.md.

    # Inputs

    `root`, or `image`
    : A directory or a tarball; or an erofs image.

    `command`
    : The program, and its arguments.

    `cwd` ("/"), `env` ({ })
    : Where it starts, and its environment besides what a container has.

    `name`
    : Optional: the derivation's name. That of the program, unless it is given.

    # Type

    ```
    inRoot :: { root :: Path; command :: [String]; ... } -> Derivation
    ```

    # Example

    ```nix
    checks.x86_64-linux.app = rewind.lib.x86_64-linux.check {
      drv = rewind.lib.x86_64-linux.inRoot {
        root = ./app.tar;
        cwd = "/src";
        command = [ "make" "check" ];
      };
    };
    ```
  */
  inherit (roots) inRoot;

  /**
    The image of a directory or tarball that `inRoot` takes.

    # Type

    ```
    rootImage :: Path -> Derivation
    ```
  */
  inherit (roots) rootImage;

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
    A layer with the closure of some store paths, for a machine to have besides its job's: what
    `rewind shell --with` mounts.

    # Type

    ```
    extras :: [String] -> Derivation
    ```
  */
  inherit extras;

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
