{
  description = "Replayable runs of Nix builds";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      system = "x86_64-linux";
      pkgs = nixpkgs.legacyPackages.${system};
      rewind = import ./lib { inherit pkgs; };
    in
    {
      lib.${system} = rewind;

      packages.${system} = rewind.packages // {
        bank = pkgs.callPackage ./examples/bank { };
      };
    };
}
