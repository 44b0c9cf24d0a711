# Derivations that cannot run in the machine, and what is said of each.
{ pkgs }:

let
  # A sentence with the derivation's name in front of it.
  noPaths = "is content-addressed, or made from what is: its outputs have no paths yet";
  noNetwork = "is a fixed-output derivation: it may use the network, and the machine has none";

  plain =
    name: args:
    derivation (
      {
        inherit name;
        system = "x86_64-linux";
        builder = "/bin/sh";
        args = [
          "-c"
          "echo > $out"
        ];
      }
      // args
    );
in
{
  fixedOutput = {
    drv = plain "fixed-output" {
      outputHash = "sha256-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
      outputHashMode = "recursive";
    };
    says = "fixed-output ${noNetwork}";
  };

  fetched = {
    drv = pkgs.fetchurl {
      url = "file:///source.tar.gz";
      hash = "sha256-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    };
    says = "source.tar.gz ${noNetwork}";
  };

  contentAddressed = {
    drv = plain "content-addressed" {
      __contentAddressed = true;
      outputHashAlgo = "sha256";
      outputHashMode = "recursive";
    };
    says = "content-addressed ${noPaths}";
  };

  madeFromContentAddressed = {
    drv = plain "deferred" {
      inputs = plain "content-addressed" {
        __contentAddressed = true;
        __structuredAttrs = true;
        outputHashAlgo = "sha256";
        outputHashMode = "recursive";
      };
    };
    says = "deferred ${noPaths}";
  };

  byNix = {
    drv = plain "by-nix" { builder = "builtin:buildenv"; };
    says = "by-nix is built by Nix itself (builtin:buildenv): there is no program to run";
  };

  otherSystem = {
    drv = plain "other-system" { system = "aarch64-linux"; };
    says = "other-system is for aarch64-linux: the machine is x86_64-linux";
  };

  noChroot = {
    drv = plain "no-chroot" { __noChroot = true; };
    says = "no-chroot has __noChroot: it is to be built outside the sandbox, and the machine is one";
  };

  kvm = {
    drv = plain "kvm" {
      requiredSystemFeatures = [
        "big-parallel"
        "kvm"
      ];
    };
    says = "kvm needs the system feature kvm, which the machine does not have";
  };

  recursiveNix = {
    drv = plain "recursive" {
      __structuredAttrs = true;
      requiredSystemFeatures = [ "recursive-nix" ];
    };
    says = "recursive needs the system feature recursive-nix, which the machine does not have";
  };

  graph = {
    drv = plain "graph" { exportReferencesGraph = [ "name" ]; };
    says = "graph has an exportReferencesGraph that is no list of names and paths";
  };

  drvAsSource = {
    drv = plain "drv-as-source" {
      recipe = builtins.unsafeDiscardOutputDependency (plain "leaf" { }).drvPath;
    };
    says = "drv-as-source has a .drv among its inputs, which is not supported";
  };

  drvWithOutputs = {
    drv = plain "drv-with-outputs" { recipe = (plain "leaf" { }).drvPath; };
    says = "drv-with-outputs has a .drv among its inputs, which is not supported";
  };
}
