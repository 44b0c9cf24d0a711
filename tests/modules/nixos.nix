# As much of NixOS as the module for it sets, with the types that NixOS has for it.
#
#     import ./nixos.nix { inherit pkgs; } MODULES   ->   { config, options, … }
{
  pkgs,
  # whether it is one that has nixseparatedebuginfod2
  debuginfod ? true,
  ...
}:

modules:
let
  inherit (pkgs) lib;
  inherit (lib) mkOption types;

  # What a unit's section can have, as nixos/lib/systemd-unit-options.nix has it.
  section = types.attrsOf (
    let
      atom = types.nullOr (
        types.oneOf [
          types.bool
          types.int
          types.float
          types.str
          types.path
          types.package
        ]
      );
    in
    types.either atom (types.listOf atom)
  );

  words = mkOption {
    type = types.listOf types.str;
    default = [ ];
  };

  service.options = {
    description = mkOption { type = types.singleLineStr; };
    wantedBy = words;
    wants = words;
    after = words;
    restartTriggers = mkOption {
      type = types.listOf types.unspecified;
      default = [ ];
    };
    path = mkOption {
      type = types.listOf (types.either types.package types.str);
      default = [ ];
    };
    environment = mkOption {
      type = types.attrsOf (
        types.nullOr (
          types.oneOf [
            types.str
            types.path
            types.package
          ]
        )
      );
      default = { };
    };
    serviceConfig = mkOption {
      type = section;
      default = { };
    };
  };
in
lib.evalModules {
  class = "nixos";
  specialArgs = { inherit pkgs; };
  modules = [
    {
      options = {
        assertions = mkOption {
          type = types.listOf types.unspecified;
          default = [ ];
        };
        environment = {
          debuginfodServers = words;
          etc = mkOption {
            type = types.attrsOf (types.submodule { options.source = mkOption { type = types.path; }; });
            default = { };
          };
          systemPackages = mkOption {
            type = types.listOf types.package;
            default = [ ];
          };
          variables = mkOption {
            type = types.lazyAttrsOf types.str;
            default = { };
          };
        };
        nix = {
          enable = mkOption {
            type = types.bool;
            default = true;
          };
          # The stand-in for nixpkgs has none.
          package = mkOption {
            type = types.package;
            default = pkgs.nix or pkgs.hello;
          };
          settings = mkOption {
            type = types.attrsOf types.unspecified;
            default = { };
          };
        };
        services = lib.optionalAttrs debuginfod {
          nixseparatedebuginfod2.enable = lib.mkEnableOption "nixseparatedebuginfod2";
        };
        systemd = {
          services = mkOption {
            type = types.attrsOf (types.submodule service);
            default = { };
          };
          tmpfiles.rules = words;
        };
      };
    }
  ]
  ++ modules;
}
