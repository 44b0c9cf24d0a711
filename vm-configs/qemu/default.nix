# QEMU with the rewind device: x86_64 system emulation, TCG only, the microvm
# machine and nothing it does not need.
#
# The source is pinned to the 10.0 series here, whatever nixpkgs' own qemu is: the
# patches and the plugin interface belong to a version. A nixpkgs whose qemu is of
# that series lends its source.
{
  lib,
  stdenv,
  fetchurl,
  qemu,
  bison,
  flex,
  meson,
  ninja,
  perl,
  pkg-config,
  python3,
  dtc,
  glib,
  zlib,
}:

let
  ownSeries = lib.versions.majorMinor qemu.version == "10.0";
in
stdenv.mkDerivation (finalAttrs: {
  pname = "rewind-qemu";
  version = if ownSeries then qemu.version else "10.0.0";

  src =
    if ownSeries then
      qemu.src
    else
      fetchurl {
        url = "https://download.qemu.org/qemu-${finalAttrs.version}.tar.xz";
        sha256 = "22c075601fdcf8c7b2671a839ebdcef1d4f2973eb6735254fd2e1bd0f30b3896";
      };

  patches = [
    ./patches/0001-icount-rep-string-instructions-count-once.patch
    ./patches/0002-icount-store-the-budget-with-32-bits.patch
    ./patches/0003-icount-tlb-size-independent-of-the-host-s-clock.patch
    ./patches/0004-icount-no-time-passes-for-a-stopped-CPU.patch
    ./patches/0005-hw-misc-add-the-rewind-device.patch
    ./patches/0006-icount-the-time-within-a-block.patch
    ./patches/0007-plugins-export-the-rewind-device-s-functions.patch
    ./patches/0008-target-i386-the-resume-flag-is-one-instruction-s.patch
    ./patches/0009-target-i386-tell-when-user-mode-begins-and-ends.patch
  ];

  nativeBuildInputs = [
    bison
    flex
    meson
    ninja
    perl
    pkg-config
    (python3.withPackages (ps: [
      ps.distlib
      ps.meson
      ps.pycotap
      ps.setuptools
    ]))
  ];

  buildInputs = [
    dtc # the microvm machine wants it, though this one has no device tree
    glib
    zlib
  ];

  postPatch = ''
    cp ${./hw/misc/rewind.c} hw/misc/rewind.c
    cp ${./include/hw/misc/rewind.h} include/hw/misc/rewind.h
    cp ${./include/qemu/rewind-plugin.h} include/qemu/rewind-plugin.h
    cp ${./devices.mak} configs/devices/i386-softmmu/default.mak
    patchShebangs .
  '';

  # QEMU's configure runs meson itself.
  dontUseMesonConfigure = true;
  dontAddDisableDepTrack = true;
  dontDisableStatic = true;
  configureFlags = [
    "--target-list=x86_64-softmmu"
    "--without-default-features"
    "--without-default-devices"
    "--enable-fdt=system"
    "--enable-system"
    "--enable-tcg"
    "--enable-plugins"
    "--disable-install-blobs"
    "--disable-docs"
    "--disable-download"
  ];
  enableParallelBuilding = true;
  preBuild = "cd build";
  # Not its tests and tools, which are as much again.
  ninjaFlags = [ "qemu-system-x86_64" ];

  installPhase = ''
    runHook preInstall
    install -D -t $out/bin qemu-system-x86_64
    install -D -m 444 -t $out/include ../include/qemu/{qemu-plugin,rewind-plugin}.h
    runHook postInstall
  '';

  # Nobody starts it by hand, and its list of devices is short: what a run needs.
  doInstallCheck = true;
  installCheckPhase = ''
    runHook preInstallCheck
    $out/bin/qemu-system-x86_64 -M microvm -device help > devices
    grep '^name "loader"' devices
    grep '^name "rewind"' devices
    runHook postInstallCheck
  '';

  meta = {
    description = "QEMU whose guest's time is its instructions, with the rewind device";
    license = lib.licenses.gpl2Plus;
    mainProgram = "qemu-system-x86_64";
    platforms = [ "x86_64-linux" ];
  };
})
