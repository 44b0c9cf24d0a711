# The machine's firmware, 64 KiB: a few dozen instructions that enter the kernel
# by its PVH entry. Neither SeaBIOS nor an option ROM is needed, so a cold boot is
# the kernel's alone, and nothing of it depends on blobs from elsewhere.
{ stdenv }:

stdenv.mkDerivation {
  pname = "rewind-firmware";
  version = "1";

  src = ./firmware.S;
  dontUnpack = true;

  buildPhase = ''
    runHook preBuild
    $CC -c -x assembler-with-cpp -m32 -o firmware.o $src
    $OBJCOPY -O binary -j .text firmware.o firmware.bin
    [ "$(stat -c %s firmware.bin)" = 65536 ]
    runHook postBuild
  '';

  installPhase = ''
    runHook preInstall
    install -Dm444 firmware.bin $out/firmware.bin
    runHook postInstall
  '';

  meta.description = "Firmware that enters a PVH kernel";
}
