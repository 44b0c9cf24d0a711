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
    "rtc=off"
  ];

  kernelParams = [
    "console=ttyS0"
    "quiet"
    # QEMU ends when the guest resets (-no-reboot); the recorder sees what the kernel said.
    "panic=-1"
    "reboot=t"
    "nokaslr"
    # One instruction is one nanosecond. The kernel is told so, rather than left to measure it
    # for seconds of guest time.
    "rewind_lapic"
    "tsc=reliable"
    "tsc_early_khz=1000000"
    "lpj=10000000"
    "no_timer_check"
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
