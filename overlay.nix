# An overlay: `pkgs.rewind`, the command line, with the Nix functions `rewind.run`, `rewind.check` and
# `rewind.search` on it. So a package can have its own check:
#
#     passthru.tests.rewind = rewind.check { drv = finalAttrs.finalPackage; };
#
# `nixpkgs` is the path of a nixpkgs, for a package set that does not say what it is made from (`path`).
{ nixpkgs }:

final: _:
let
  functions = import ./lib { pkgs = final; };
in
{
  rewind = final.callPackage ./python {
    nixpkgs = final.path or nixpkgs;
    inherit (functions.packages) plugin;
    functions = { inherit (functions) run check search; };
  };
}
