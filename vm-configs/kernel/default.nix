# The guest's kernel: Linux 6.12 with the rewind driver as an added directory and a few small
# patches, as few options as will do for what builds and tests of packages use.
#
# Not nixpkgs' buildLinux: its common configuration is for real machines, and there are no modules
# here. `out` is what a machine boots (vmlinux without its symbols, entered at its PVH entry) and
# `dev` is, as in nixpkgs, vmlinux with DWARF, for what reads the machine's memory. The DWARF names
# the sources where they are: in `dev` too, in source/, all that it names and no others.
{
  lib,
  stdenv,
  linux_6_12,
  bc,
  bison,
  cpio,
  elfutils,
  flex,
  gawk,
  openssl,
  perl,
  zlib,
}:

stdenv.mkDerivation (finalAttrs: {
  pname = "rewind-linux";
  inherit (linux_6_12) version src;

  outputs = [
    "out"
    "dev"
  ];

  patches = [
    ./patches/0001-x86-mm-flush-when-clearing-the-Accessed-bit.patch
    ./patches/0002-timers-look-through-the-pending-timers.patch
    ./patches/0003-show-the-CPUs-programs-are-told-of.patch
    ./patches/0004-tracing-tracepoints-without-trace-events.patch
    ./patches/0005-io_uring-let-the-last-idle-worker-sleep.patch
  ];

  postPatch = ''
    patchShebangs scripts

    cp -r ${./drivers/rewind} drivers/rewind
    chmod -R u+w drivers/rewind
    echo 'obj-$(CONFIG_REWIND) += rewind/' >> drivers/Makefile
    sed -i '$s|^endmenu$|source "drivers/rewind/Kconfig"\n&|' drivers/Kconfig
    grep -q rewind drivers/Kconfig
  '';

  nativeBuildInputs = [
    bc
    bison
    cpio
    elfutils
    flex
    gawk
    openssl
    perl
    zlib
  ];

  # The kernel has flags of its own for these.
  hardeningDisable = [ "all" ];
  enableParallelBuilding = true;

  # What the kernel would otherwise ask of the machine that builds it.
  env = {
    KBUILD_BUILD_TIMESTAMP = "1970-01-01";
    KBUILD_BUILD_USER = "nix";
    KBUILD_BUILD_HOST = "nix";
    KBUILD_BUILD_VERSION = "1";
  };

  configurePhase = ''
    runHook preConfigure
    make tinyconfig
    cat ${./config} >> .config
    make olddefconfig
    bash ${./check-config.sh} ${./config} .config
    runHook postConfigure
  '';

  preBuild = ''
    export KCFLAGS=-fdebug-prefix-map=$PWD=$dev/source
    export KAFLAGS=$KCFLAGS
  '';

  buildFlags = [
    "bzImage"
    "vmlinux"
  ];

  installPhase = ''
    runHook preInstall
    mkdir -p $out $dev
    cp arch/x86/boot/bzImage System.map $out/
    cp .config $out/config
    cp vmlinux $dev/
    # Keeps the note that has the PVH entry, which is in a segment.
    $STRIP -s -o $out/vmlinux vmlinux

    eu-srcfiles -e vmlinux | sed -n "s|^$dev/source/||p" | sort -u > sources
    while read -r file; do
      install -D -m 444 "$file" "$dev/source/$file"
    done < sources
    [ -f $dev/source/kernel/fork.c ]
    [ -f $dev/source/drivers/rewind/core.c ]
    runHook postInstall
  '';

  dontStrip = true;
  dontPatchELF = true;

  passthru.config = ./config;

  meta = {
    description = "Kernel of the rewind machine";
    license = lib.licenses.gpl2Only;
    platforms = [ "x86_64-linux" ];
  };
})
