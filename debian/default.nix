# The package set: `import ./. { system = "x86_64-linux"; overlays = [ ]; }`.
#
# As in nixpkgs it is the fixed point of overlays: those of this directory, then the caller's.
{
  system ? "x86_64-linux",
  localSystem ? { inherit system; },
  overlays ? [ ],
  config ? { },
  ...
}:
let
  lib = import ./lib;

  base = final: {
    inherit lib config system;
    pkgs = final;
    debian = import ./debs.nix {
      inherit lib;
      system = "x86_64-linux";
    }
    // {
      # Does each package run? Not in nixpkgs; for this set's own check.
      smoke = import ./checks final;
    };
    callPackage = lib.callPackageWith final;
    callPackages = lib.callPackagesWith final;
    newScope = scope: lib.callPackageWith (final // scope);
    appendOverlays = more: import ./. { overlays = overlays ++ more; };
    extend = overlay: final.appendOverlays [ overlay ];
  };

  stages = [
    (import ./pkgs/toolchain.nix)
    (import ./pkgs/hooks.nix)
    (import ./pkgs/trivial-builders.nix)
    (import ./pkgs/formats.nix)
    (import ./pkgs/fetchers.nix)
    (import ./pkgs/tools.nix)
    (import ./pkgs/sources.nix)
    (import ./python)
  ];
in
lib.throwIfNot (system == "x86_64-linux") "the Debian-made package set is for x86_64-linux only" (
  lib.fix (lib.foldl' (lib.flip lib.extends) base (stages ++ overlays))
)
