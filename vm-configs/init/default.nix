# Init, and the initramfs it is the only file of: not compressed, because the kernel would unpack
# it at every boot, and written by hand, because a cpio archive made from files has their inode
# numbers and times in it.
{ stdenv, glibc }:

stdenv.mkDerivation {
  pname = "rewind-init";
  version = "1";

  src = builtins.path {
    name = "rewind-init-source";
    path = ./.;
    # What it is built from: a change of this file alone is none of init.
    filter = path: type: builtins.match ".*\\.[ch]" path != null;
  };

  # In the stand-in for nixpkgs the compiler comes with them.
  buildInputs = [ (glibc.static or glibc) ];

  buildPhase = ''
    runHook preBuild
    $CC -static -O2 -Wall -Wextra -Werror -o init *.c
    runHook postBuild
  '';

  # A number in a header is eight hexadecimal digits; names and contents are padded to four bytes.
  installPhase = ''
    runHook preInstall
    install -D init $out/bin/init
    $STRIP $out/bin/init

    # member NAME MODE FILE
    member() {
      local size=$(stat -c %s $3) name=$1
      printf 070701
      printf %08x 0 $2 0 0 1 0 $size 0 0 0 0 $((''${#name} + 1)) 0
      printf '%s\0' $name
      head -c $((-(110 + ''${#name} + 1) & 3)) /dev/zero
      cat $3
      head -c $((-size & 3)) /dev/zero
    }
    {
      member init 0100755 $out/bin/init
      member TRAILER!!! 0 /dev/null
    } > $out/initrd
    runHook postInstall
  '';

  meta.description = "First process of the rewind machine";
}
