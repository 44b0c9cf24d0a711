# The parts of the machine, and the settings that put them together.
{ callPackage }:

rec {
  qemu = callPackage ./qemu { };
  firmware = callPackage ./firmware { };
  kernel = callPackage ./kernel { };
  init = callPackage ./init { };

  machine = callPackage ./machine.nix {
    inherit
      qemu
      firmware
      kernel
      init
      ;
  };
}
