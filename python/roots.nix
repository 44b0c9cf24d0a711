# The builder of images of roots (docs/roots.md), for who has one in a flake. The command line makes
# them itself, with the same code.
{ callPackage }:

callPackage ./builder.nix { } {
  name = "roots";
  module = "rewind.roots";

  parts = [ ./rewind/roots ];

  dependencies = ps: [
    ps.attrs
    ps.zstandard
  ];

  description = "Builder of images of root directories";
}
