# For flake-parts: `perSystem.rewind.checks.NAME` makes `checks.<system>.NAME`.
#
# `packages` are rewind's own, by system: what they are made for is where there are checks.
{ packages }:

{ lib, flake-parts-lib, ... }:
let
  inherit (lib) mkOption types;

  defaults = import ../lib/defaults.nix // import ../lib/bounds.nix;

  option =
    name: type: description:
    mkOption {
      inherit type description;
      default = defaults.${name};
    };

  # The options of one check are the arguments of `lib.check`.
  check = {
    options = {
      drv = mkOption {
        type = types.package;
        description = ''
          The derivation whose build is run. It is not built for it: its run realises the inputs alone.
        '';
        example = lib.literalExpression "config.packages.default";
      };

      schedules = option "schedules" types.ints.unsigned ''
        How many schedules are tried besides the unperturbed one.
      '';
      from = option "from" types.ints.unsigned ''
        The first step of the run at which a perturbation may be.
      '';
      all = option "all" types.bool ''
        Whether the search goes on after the first schedule with another outcome.
      '';
      ignoreOutputs = option "ignoreOutputs" types.bool ''
        Whether an outcome is only how the build ends, whatever it has made.
      '';
      strategy =
        option "strategy"
          (types.enum [
            "directed"
            "windows"
            "chance"
          ])
          ''
            What schedules are made of: "directed" begins with stalls that put conflicting accesses to
            memory into another order, "windows" with such where windows are likely, and "chance" draws
            all.
          '';
      shards = option "shards" types.ints.positive ''
        How many derivations the schedules are spread over, for as many builders. The report is the
        same.
      '';
      seconds = option "seconds" (types.nullOr (types.addCheck types.number (x: x > 0))) ''
        The host's time that looking for a schedule may take, in seconds; null for as long as it takes.
        What is found with a limit depends on the host, so it takes a `nonce` as well.
      '';
      nonce = option "nonce" (types.nullOr types.str) ''
        A string that no other search has, for one with a limit of `seconds`.
      '';

      name = mkOption {
        type = types.nullOr types.str;
        default = null;
        description = ''
          What the run is called; null for the name of `drv`.
        '';
      };
      schedule =
        option "schedule"
          (types.listOf (
            types.attrsOf (
              types.oneOf [
                types.str
                types.int
                types.bool
              ]
            )
          ))
          ''
            Perturbations that all of the search's runs have in common, each at a position of the run:
            `{ at = "3237+41"; stall = 1000000; }`, `{ at = "3250"; reschedule = true; }`.
          '';
      epoch = option "epoch" types.ints.positive ''
        The wall clock when the build starts, in seconds since 1970.
      '';
      seed = option "seed" types.str ''
        What the kernel's random number generator starts from.
      '';
      cores = option "cores" types.ints.positive ''
        The CPUs that programs see, and `NIX_BUILD_CORES`. One of them runs at a time.
      '';
      memory = option "memory" types.ints.positive ''
        The machine's memory, in MiB.
      '';
      timeLimit = option "timeLimit" types.ints.unsigned ''
        How long the unperturbed run may take, in seconds of the machine's time; 0 for as long as it
        likes.
      '';
    };
  };
in
{
  _class = "flake";
  # Once, however often it is imported.
  key = ./flake-parts.nix;

  options.perSystem = flake-parts-lib.mkPerSystemOption (
    { config, system, ... }:
    let
      cfg = config.rewind;
    in
    {
      _file = ./flake-parts.nix;

      options.rewind = {
        enable = mkOption {
          type = types.bool;
          default = packages ? ${system};
          defaultText = lib.literalMD "whether rewind is there for the system";
          description = ''
            Whether `checks` are made. rewind's machine is there for x86_64-linux: for other systems
            there are none.
          '';
        };

        package = mkOption {
          type = types.package;
          default =
            (packages.${system} or (throw "rewind: there is no machine for ${system}, only for x86_64-linux"))
            .rewind;
          defaultText = lib.literalExpression "inputs.rewind.packages.\${system}.rewind";
          description = ''
            The command line that checks belong to: their functions are its `passthru`. With another one,
            such as `pkgs.rewind` of the overlay, checks are made with the nixpkgs that it is made with.
            A run has the same name for the check and for `rewind` only if it is the same package.
          '';
        };

        checks = mkOption {
          type = types.attrsOf (types.submodule check);
          default = { };
          example = lib.literalExpression ''
            {
              bank = {
                drv = config.packages.bank;
                schedules = 256;
              };
            }
          '';
          description = ''
            Builds that are run under many schedules. Each becomes a check that fails, with the search's
            report as its log, if they do not all end in the same way; its attributes `failing` and
            `passing` are the runs on both sides of the position that decides.
          '';
        };
      };

      config.checks = lib.mkIf cfg.enable (
        lib.mapAttrs (
          _: given: cfg.package.check (lib.filterAttrs (name: value: name != "name" || value != null) given)
        ) cfg.checks
      );
    }
  );
}
