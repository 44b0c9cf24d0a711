# The recorder: the builder of runs and boot snapshots. What it contains is part of every run's
# hash, so it holds no more than it needs: of the Python package only what is listed here, none
# of the command line, and no tests.
{ callPackage }:

callPackage ./builder.nix { } {
  name = "recorder";
  module = "rewind.recorder";

  parts = [
    ./rewind/formats
    ./rewind/machine
    ./rewind/recorder
  ];

  dependencies = ps: [
    ps.attrs
    ps.cbor2
    ps.pyelftools
    ps.qemu-qmp
    ps.zstandard
  ];

  description = "Builder of rewind's runs";
}
