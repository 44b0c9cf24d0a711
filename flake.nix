{
  description = "Replayable runs of Nix builds, down to which thread ran when";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      system = "x86_64-linux";
      pkgs = nixpkgs.legacyPackages.${system};

      rewind = import ./lib { inherit pkgs; };

      examples = import ./examples { inherit (pkgs) lib callPackage; };

      # The machine's parts, the recorder, the command line and what there is to try it on.
      packages =
        rewind.packages
        // examples
        // {
          rewind = pkgs.callPackage ./python {
            nixpkgs = nixpkgs.outPath;
            inherit (rewind.packages) plugin;
            functions = { inherit (rewind) run check search; };
          };
        };
    in
    {
      lib.${system} = rewind;

      packages.${system} = packages // {
        default = packages.rewind;
      };

      overlays.default = import ./overlay.nix { nixpkgs = nixpkgs.outPath; };

      # For flake-parts: perSystem.rewind.checks.
      flakeModules.default = nixpkgs.lib.modules.importApply ./modules/flake-parts.nix {
        inherit (self) packages;
      };

      # For NixOS: programs.rewind, services.rewind.postBuildHook.
      nixosModules.default = nixpkgs.lib.modules.importApply ./modules/nixos.nix {
        inherit (self) packages;
      };

      templates.default = {
        path = ./templates/c;
        description = "A C program whose test fails now and then, and the check that finds out when";
      };

      checks.${system} = import ./tests {
        inherit
          pkgs
          rewind
          packages
          examples
          ;
        modules = {
          flake = self.flakeModules.default;
          nixos = self.nixosModules.default;
        };
      };

      apps.${system} = {
        test = {
          type = "app";
          program = pkgs.lib.getExe (
            pkgs.writeShellApplication {
              name = "rewind-test";
              runtimeInputs = [
                (pkgs.python3.withPackages (ps: [
                  ps.attrs
                  ps.pytest
                ]))
              ];
              # Of the nixpkgs that everything else here is made from.
              text = ''
                if [ ! -e tests/run.py ]; then
                  echo "run me in a checkout of rewind" >&2
                  exit 2
                fi
                export REWIND_NIXPKGS=${nixpkgs}
                exec python3 tests/run.py "$@"
              '';
            }
          );
          meta.description = "All of rewind's tests, in a checkout";
        };

        bench = {
          type = "app";
          program = pkgs.lib.getExe (
            pkgs.writeShellApplication {
              name = "rewind-bench";
              runtimeInputs = [ (pkgs.python3.withPackages (ps: [ ps.attrs ])) ];
              text = ''
                if [ ! -e bench/run.py ]; then
                  echo "run me in a checkout of rewind" >&2
                  exit 2
                fi
                export REWIND_NIXPKGS=${nixpkgs} PYTHONDONTWRITEBYTECODE=1
                exec python3 -m bench.run "$@"
              '';
            }
          );
          meta.description = "What rewind costs, measured in a checkout";
        };
      };

      devShells.${system}.default = pkgs.callPackage ./shell.nix { inherit packages; };

      # The stand-in for nixpkgs (debian/) has none.
      formatter = pkgs.lib.optionalAttrs (pkgs ? nixfmt) { ${system} = pkgs.nixfmt; };
    };
}
