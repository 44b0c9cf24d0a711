# The searcher: the builder of searches. It runs machines as the recorder does, but no run depends on
# it: searches get better, and the runs that they find stay what they are.
{ callPackage }:

callPackage ./builder.nix { } {
  name = "searcher";
  module = "rewind.search";

  parts = [
    ./rewind/analysis
    ./rewind/formats
    ./rewind/inspect
    ./rewind/machine
    ./rewind/recorder
    ./rewind/replay
    ./rewind/search
  ];

  dependencies = ps: [
    ps.attrs
    ps.cbor2
    ps.drgn
    ps.pyelftools
    ps.qemu-qmp
    ps.zstandard
  ];

  description = "Builder of rewind's searches";
}
