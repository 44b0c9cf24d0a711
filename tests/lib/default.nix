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
in
{
  inherit rewind samples refused;

  # Of a job with all three.
  layers = rewind.image (rewind.job samples.bank).inputs;

  # Throws, for each of `refused`.
  refusals = lib.mapAttrs (_: { drv, ... }: {
    fromValue = (rewind.run { inherit drv; }).drvPath;
    fromDrv = (rewind.runFromDrv (fromDrv drv.drvPath)).drvPath;
  }) refused;

  # Per sample: the .drv of its run, from the value and from the .drv.
  sameRun =
    lib.mapAttrs (_: drv: {
      fromValue = (rewind.run { inherit drv; }).drvPath;
      fromDrv = (rewind.runFromDrv (fromDrv drv.drvPath)).drvPath;
    }) samples
    // {
      withOptions = {
        fromValue = (rewind.run ({ drv = samples.bank; } // options)).drvPath;
        fromDrv = (rewind.runFromDrv (fromDrv samples.bank.drvPath // options)).drvPath;
      };
    };
}
