# The kernel and its driver, tested in the machine with an initramfs of their own: neither init
# nor the recorder nor layers have a part in it.
{
  lib,
  stdenv,
  glibc,
  python3,
  # The machine's settings (vm-configs/machine.nix).
  machine,
}:

let
  driver = ../../vm-configs/kernel/drivers/rewind;

  # What starts the machine and reads its traces.
  modules = lib.fileset.toSource {
    root = ../../python;
    fileset = lib.fileset.unions [
      ../../python/rewind/__init__.py
      ../../python/rewind/formats
      ../../python/rewind/machine
    ];
  };

  python = python3.withPackages (ps: [
    ps.attrs
    ps.cbor2
    ps.pyelftools
    ps.pytest
    ps.zstandard
  ]);
in
stdenv.mkDerivation {
  name = "rewind-kernel-tests";

  src = ./.;

  nativeBuildInputs = [ python ];

  # In the stand-in for nixpkgs the compiler comes with them.
  buildInputs = [ (glibc.static or glibc) ];

  buildPhase = ''
    runHook preBuild
    flags="-static -O2 -Wall -Wextra -Werror"
    mkdir root
    $CC $flags -I${driver} -o root/init init.c
    $CC $flags -o root/check calls.c check.c cpus.c features.c turns.c wait.c wakes.c
    python3 make_initrd.py initrd root/init root/check
    runHook postBuild
  '';

  doCheck = true;

  checkPhase = ''
    runHook preCheck
    PYTHONPATH=${modules} REWIND_MACHINE=${machine} REWIND_INITRD=$PWD/initrd \
      python3 -m pytest -q -p no:cacheprovider test_kernel.py
    runHook postCheck
  '';

  installPhase = ''
    runHook preInstall
    touch $out
    runHook postInstall
  '';
}
