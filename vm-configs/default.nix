# The parts of the machine, the settings that put them together, and what watches it.
{ callPackage }:

rec {
  qemu = callPackage ./qemu { };
  firmware = callPackage ./firmware { };
  kernel = callPackage ./kernel { };
  init = callPackage ./init { };
  plugin = callPackage ./plugin { inherit qemu; };

  machine = callPackage ./machine.nix {
    inherit
      qemu
      firmware
      kernel
      init
      ;
  };
}
