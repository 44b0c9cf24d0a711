# Programs and libraries. One that has a line in debian/packages and needs nothing more is only
# named here.
final: prev:
let
  inherit (prev) lib debian;
  inherit (debian) package;

  plain = lib.genAttrs [
    "bc"
    "binutils"
    "bzip2"
    "coreutils"
    "cpio"
    "diffutils"
    "dtc"
    "elfutils"
    "erofs-utils"
    "findutils"
    "glib"
    "gnugrep"
    "gnumake"
    "gnused"
    "gnutar"
    "gzip"
    "hyperfine"
    "jq"
    "lz4"
    "m4"
    "ncurses"
    "openssl"
    "patch"
    "patchelf"
    "pixman"
    "pkg-config"
    "rsync"
    "shellcheck"
    "strace"
    "stress-ng"
    "util-linux"
    "xz"
    "zlib"
    "zstd"
  ] (name: package name { });

  mainPrograms = {
    binutils = "ld";
    coreutils = "ls";
    diffutils = "diff";
    erofs-utils = "mkfs.erofs";
    findutils = "find";
    gnugrep = "grep";
    gnumake = "make";
    gnused = "sed";
    gnutar = "tar";
  };
in
lib.mapAttrs (
  name: p: p // { meta.mainProgram = mainPrograms.${name} or name; }
) plain
// {
  bash = package "bash" {
    post = ''
      ln -sfn bash $out/usr/bin/sh
      publish sh
    '';
    passthru.shellPath = "/bin/bash";
  };
  bashInteractive = final.bash;
  bashNonInteractive = final.bash;
  runtimeShell = "${final.bash}/bin/bash";
  runtimeShellPackage = final.bash;

  # Programs that find their data by absolute paths get it by environment variables.
  bison = package "bison" {
    post = "wrap bison M4=$out/usr/bin/m4 BISON_PKGDATADIR=$out/usr/share/bison";
  };
  file = package "file" { post = "wrap file MAGIC=$out/usr/lib/file/magic.mgc"; };
  flex = package "flex" { post = "wrap flex M4=$out/usr/bin/m4"; };
  gdb = package "gdb" {
    # (GCONV_PATH: the conversions to the character sets that gdb uses within)
    post = "wrap gdb PYTHONHOME=$out/usr GCONV_PATH=${debian.libc}/usr/lib/$multiarch/gconv";
  };
  # It looks for its other half where it would be installed.
  openssh = package "openssh" {
    mainProgram = "ssh";
    # sshd is linked with it, whether it is used or not.
    keep = [
      "libaudit1"
      "libpam0g"
    ];
    post = ''
      mv $out/usr/bin/sshd $out/usr/bin/.sshd
      {
        echo "#!$sandboxShell/bin/busybox sh"
        echo "exec $out/usr/bin/.sshd -o SshdSessionPath=$out/usr/lib/openssh/sshd-session \\"
        echo "  -o SshdAuthPath=$out/usr/lib/openssh/sshd-auth \"\$@\""
      } >$out/usr/bin/sshd
      chmod 755 $out/usr/bin/sshd
      publish sshd
    '';
  };
  perl = package "perl" {
    post = ''
      modules=
      for directory in $out/usr/share/perl5 $out/usr/share/perl/5.*[0-9] \
        $out/usr/lib/$multiarch/perl/5.*[0-9] $out/usr/lib/$multiarch/perl-base; do
        [ ! -d $directory ] || modules=$modules:$directory
      done
      wrap perl "PERL5LIB=\''${PERL5LIB:+\$PERL5LIB:}''${modules#:}"
      publish perl
    '';
  };

  gawk = package "gawk" {
    post = ''
      ln -sfn gawk $out/usr/bin/awk
      publish awk
    '';
  };
  which = package "which" {
    post = ''
      ln -sfn which.debianutils $out/usr/bin/which
      publish which
    '';
  };

  ninja = package "ninja" { setupHook = builtins.readFile ../hooks/ninja.sh; };

  # The shell of the sandbox, also inside of recorded machines: one and the same path.
  busybox-sandbox-shell = debian.dress { meta.mainProgram = "busybox"; } (
    debian.sandboxShell
    // {
      pname = "busybox-sandbox-shell";
      version = debian.upstreamVersion debian.lock.debs.busybox-static.version;
    }
  );
  busybox = package "busybox" {
    interpreter = "";
    post = ''
      for name in $($seed/busybox --list); do
        [ -e $out/usr/bin/$name ] || ln -s busybox $out/usr/bin/$name
        publish $name
      done
    '';
  };
  pkgsStatic = { inherit (final) busybox; };

  # Debian's QEMU; nixpkgs' `qemu` is here only a source, see sources.nix.
  qemu-bin = package "qemu-bin" {
    mainProgram = "qemu-system-x86_64";
    post = ''
      rm -f $out/usr/bin/qemu-system-i386
      for file in $out/usr/share/seabios/*; do
        [ -e $out/usr/share/qemu/''${file##*/} ] || ln -s $file $out/usr/share/qemu/
      done
      mv $out/usr/bin/qemu-system-x86_64 $out/usr/bin/.qemu-system-x86_64
      {
        echo "#!$sandboxShell/bin/busybox sh"
        echo "exec $out/usr/bin/.qemu-system-x86_64 -L $out/usr/share/qemu \"\$@\""
      } >$out/usr/bin/qemu-system-x86_64
      chmod 755 $out/usr/bin/qemu-system-x86_64
      publish qemu-system-x86_64
    '';
  };

  # Other names that nixpkgs has for these
  gnum4 = final.m4;
  libelf = final.elfutils;
  pkgconf = final.pkg-config;
  util-linuxMinimal = final.util-linux;

  # ruff is on PyPI only: a wheel that holds the program
  ruff = final.stdenvNoCC.mkDerivation {
    pname = "ruff";
    inherit (debian.wheels.ruff) version src;
    nativeBuildInputs = [ final.python3 ];
    dontUnpack = true;
    installPhase = ''
      runHook preInstall
      python3 -m zipfile -e $src wheel
      install -Dm755 wheel/*/scripts/ruff $out/bin/ruff
      runHook postInstall
    '';
    # (the order: see unpack.sh)
    postFixup = ''
      patchelf --force-rpath --set-rpath ${debian.libc}/usr/lib/${debian.multiarch} $out/bin/ruff
      patchelf --set-interpreter ${debian.dynamicLinker} $out/bin/ruff
      $out/bin/ruff --version
    '';
    meta.mainProgram = "ruff";
  };
}
