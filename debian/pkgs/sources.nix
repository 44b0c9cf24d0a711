# Sources under the names and versions that nixpkgs gives them. These packages have nothing but
# `version` and `src` here: they are to be built from.
final: prev:
let
  inherit (final) lib debian runCommandLocal;
  origTarball = name: debian.source name "orig";
in
{
  linux_6_12 = rec {
    pname = "linux";
    version = debian.upstreamVersion debian.lock.debs."linux-source-6.12".version;
    modDirVersion = version;
    # Debian's tree, with its patches; in a .deb of nothing but that tarball.
    src =
      runCommandLocal "linux-${version}.tar.xz"
        {
          deb = debian.deb "linux-source-6.12";
          nativeBuildInputs = [ final.binutils ];
        }
        ''
          ar x $deb
          tar -xf data.tar.* ./usr/src
          mv usr/src/linux-source-*.tar.xz $out
        '';
  };
  linux = final.linux_6_12;

  qemu = rec {
    pname = "qemu";
    inherit (origTarball "qemu") version;
    bin = final.qemu-bin;
    meta.mainProgram = "qemu-system-x86_64";
    # Upstream's tarball less what Debian takes out (firmware images), with Debian's patches.
    # A patch for a file that is not there is left out. Of the firmware's sources, of no use
    # here, only the makefiles stay.
    src =
      runCommandLocal "qemu-${version}.tar.gz"
        {
          orig = origTarball "qemu";
          debian = debian.source "qemu" "debian";
          inherit version;
        }
        ''
          mkdir unpacked
          tar -xf $orig -C unpacked --exclude='*/roms/*/*'
          mv unpacked/* qemu-$version
          cd qemu-$version
          tar -xf $debian debian/patches
          grep -v '^#' debian/patches/series | while read -r name rest; do
            [ -n "$name" ] || continue
            patch=debian/patches/$name
            if patch --dry-run --silent --force -p1 <$patch >/dev/null 2>&1; then
              patch --silent -p1 <$patch
            else
              echo "left out: $name"
            fi
          done
          rm -rf debian
          cd ..
          tar -c --sort=name --mtime=@$(stat -c %Y qemu-$version/VERSION) --owner=0 --group=0 \
            --numeric-owner --format=gnu qemu-$version | gzip -n -1 >$out
        '';
  };

  hello = final.stdenv.mkDerivation rec {
    pname = "hello";
    inherit (src) version;
    src = origTarball "hello";
    doCheck = true;
    meta.mainProgram = "hello";
  };
}
