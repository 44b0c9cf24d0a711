# Derivations that cannot run in the machine, and what is said of each.
{ pkgs }:

let
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
    says = "rewind: fixed-output is a fixed-output derivation: it may use the network, and the machine has none";
  };

  fetched = {
    drv = pkgs.fetchurl {
      url = "file:///source.tar.gz";
      hash = "sha256-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    };
    says = "rewind: source.tar.gz is a fixed-output derivation: it may use the network, and the machine has none";
  };

  contentAddressed = {
    drv = plain "content-addressed" {
      __contentAddressed = true;
      outputHashAlgo = "sha256";
      outputHashMode = "recursive";
    };
    says = "rewind: content-addressed is content-addressed or impure, or made from what is: its outputs have no paths yet";
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
    says = "rewind: deferred is content-addressed or impure, or made from what is: its outputs have no paths yet";
  };

  byNix = {
    drv = plain "by-nix" { builder = "builtin:buildenv"; };
    says = "rewind: by-nix is built by Nix itself (builtin:buildenv): there is no program to run";
  };

  otherSystem = {
    drv = plain "other-system" { system = "aarch64-linux"; };
    says = "rewind: other-system is for aarch64-linux: the machine is x86_64-linux";
  };

  noChroot = {
    drv = plain "no-chroot" { __noChroot = true; };
    says = "rewind: no-chroot has __noChroot: it is to be built outside the sandbox, and the machine is one";
  };

  kvm = {
    drv = plain "kvm" {
      requiredSystemFeatures = [
        "big-parallel"
        "kvm"
      ];
    };
    says = "rewind: kvm needs the system feature kvm, which the machine does not have";
  };

  recursiveNix = {
    drv = plain "recursive" {
      __structuredAttrs = true;
      requiredSystemFeatures = [ "recursive-nix" ];
    };
    says = "rewind: recursive needs the system feature recursive-nix, which the machine does not have";
  };

  graph = {
    drv = plain "graph" { exportReferencesGraph = [ "name" ]; };
    says = "rewind: graph has an exportReferencesGraph that is no list of names and paths";
  };

  drvAsSource = {
    drv = plain "drv-as-source" {
      recipe = builtins.unsafeDiscardOutputDependency (plain "leaf" { }).drvPath;
    };
    says = "rewind: drv-as-source has a .drv among its inputs, which is not supported";
  };

  drvWithOutputs = {
    drv = plain "drv-with-outputs" { recipe = (plain "leaf" { }).drvPath; };
    says = "rewind: drv-with-outputs has a .drv among its inputs, which is not supported";
  };
}
