# As much of flake-parts as a module for it meets: `perSystem` is a module that other modules declare
# options of, evaluated for each of `systems`.
#
#     import ./flake-parts.nix { inherit lib; } MODULE   ->   { flake, evaluated }
#
# `flake` are the flake's outputs, `evaluated` is what evalModules makes of perSystem, by system.
{ lib, ... }:

module:
let
  inherit (lib) mkOption types;

  flake-parts-lib.mkPerSystemOption =
    module: mkOption { type = types.deferredModuleWith { staticModules = [ module ]; }; };

  core =
    { config, flake-parts-lib, ... }:
    {
      options = {
        systems = mkOption { type = types.listOf types.str; };
        flake = mkOption { type = types.lazyAttrsOf types.raw; };
        evaluated = mkOption { type = types.lazyAttrsOf types.raw; };
        perSystem = flake-parts-lib.mkPerSystemOption {
          options.checks = mkOption {
            type = types.lazyAttrsOf types.package;
            default = { };
          };
        };
      };
      config.evaluated = lib.genAttrs config.systems (
        system:
        lib.evalModules {
          class = "perSystem";
          modules = [ config.perSystem ];
          prefix = [
            "perSystem"
            system
          ];
          specialArgs = { inherit system; };
        }
      );
      config.flake.checks = lib.mapAttrs (_: system: system.config.checks) config.evaluated;
    };
in
(lib.evalModules {
  class = "flake";
  modules = [
    core
    module
  ];
  specialArgs = { inherit flake-parts-lib; };
}).config
