{
  description = "A C program whose test fails now and then, and the check that finds out when";

  inputs = {
    nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";
    rewind = {
      url = "github:OWNER/rewind";
      inputs.nixpkgs.follows = "nixpkgs";
    };
  };

  outputs =
    { nixpkgs, rewind, ... }:
    let
      system = "x86_64-linux";
      pkgs = nixpkgs.legacyPackages.${system};

      tally = pkgs.callPackage ./package.nix { };
    in
    {
      packages.${system}.default = tally;

      checks.${system} = {
        # Builds it and runs its test, once: that nearly always passes.
        inherit tally;

        # Runs the same build under up to 64 schedules. When this fails, its log says which one makes
        # the test fail, and at which line of the program that is decided; then
        #   nix build .#checks.x86_64-linux.schedules.failing
        # is that run, for `rewind log`, `where` and `gdb`.
        schedules = rewind.lib.${system}.check { drv = tally; };
      };
    };
}
