# The machine's settings, as data: what QEMU and the kernel are started with, the same for every
# run. Read by python/rewind/machine/settings.py; the file's store path is part of a run's name.
{
  writeText,
  qemu,
  firmware,
  kernel,
  init,
}:

let
  # Options of -cpu and -M: "name,+this,-that", "name,this=on,that=off".
  cpu = [
    "Haswell"
    # Not part of a snapshot: QEMU's own generator. The kernel's is seeded with the run's seed.
    "-rdrand"
    # What a copy loop does instead is faster here.
    "-erms"
    # Features that this machine's timers and page tables have no use for.
    "-invpcid"
    "-pcid"
    "-spec-ctrl"
    "-tsc-deadline"
    "-x2apic"
  ];

  machine = [
    "microvm"
    "acpi=off"
    "isa-serial=on"
    "pic=off"
    # After a restore it would raise an interrupt that the run from a cold boot does not have.
    "pit=off"
    # Its clock would be the host's; the kernel gets the time from init.
    "rtc=off"
  ];

  # The rest is in the kernel's own command line (vm-configs/kernel/config).
  kernelParams = [
    "quiet"
  ];

  settings = {
    qemu = "${qemu}/bin/qemu-system-x86_64";
    firmware = "${firmware}/firmware.bin";
    kernel = "${kernel}/vmlinux";
    initrd = "${init}/initrd";
    machine = builtins.concatStringsSep "," machine;
    cpu = builtins.concatStringsSep "," cpu;
    inherit kernelParams;
  };
in
writeText "rewind-machine.json" (builtins.toJSON settings)
