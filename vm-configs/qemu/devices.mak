# The whole machine: see vm-configs/machine.nix.
CONFIG_MICROVM=y
CONFIG_GENERIC_LOADER=y
CONFIG_REWIND=y
