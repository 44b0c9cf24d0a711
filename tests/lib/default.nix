# Tests of lib/ that need no machine, and more than pure evaluation allows: they read .drv files.
# tests/lib/run evaluates them.
{
  nixpkgs,
  source ? ../..,
}:

let
  pkgs = import nixpkgs {
    system = "x86_64-linux";
    config = { };
    overlays = [ ];
  };
  inherit (pkgs) lib;

  rewind = import (source + "/lib") { inherit pkgs; };

  samples = import ./samples.nix { inherit pkgs; };
  refused = import ./refused.nix { inherit pkgs; };

  fromDrv = path: import ./drv.nix (builtins.unsafeDiscardStringContext path);

  options = {
    cores = 3;
    memory = 1024;
    seed = "other";
  };

  bounds = options // {
    schedules = 3;
    from = 100;
    all = true;
    ignoreOutputs = true;
    shards = 2;
  };

  # From the value and from the .drv.
  bothWays = function: drv: given: {
    fromValue = (rewind.${function} ({ inherit drv; } // given)).drvPath;
    fromDrv = (rewind."${function}FromDrv" (fromDrv drv.drvPath // given)).drvPath;
  };

  # Its environment has names that derivations have a use for, and its name needs a mend.
  inRoot = rewind.inRoot {
    root = ./.;
    command = [
      "./.run me"
      "--quick"
      "two words"
    ];
    cwd = "/";
    env = {
      name = "x";
      outputs = "a b";
      "odd-name" = "1";
    };
  };
in
{
  inherit rewind samples refused;

  # Of a job with all three.
  layers = rewind.image (rewind.job samples.bank).inputs;

  # Throws, for each of `refused`.
  refusals = lib.mapAttrs (_: { drv, ... }: bothWays "run" drv { }) refused;

  # Arguments that are refused, and what is said of each.
  refusedArguments = import ./refused-arguments.nix { inherit rewind samples; };

  # Per sample: the .drv of its run.
  sameRun = lib.mapAttrs (_: drv: bothWays "run" drv { }) samples // {
    withOptions = bothWays "run" samples.bank options;
    inRoot = bothWays "run" inRoot { };
  };

  # The .drv of its search.
  sameSearch = lib.mapAttrs (_: drv: bothWays "search" drv { }) samples // {
    withOptions = bothWays "search" samples.bank bounds;
  };
}
