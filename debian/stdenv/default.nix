# stdenv: a shell, the usual tools, a compiler or none, and `mkDerivation`.
#
#   pkgs      the package set
#   cc        the compiler, null for stdenvNoCC
{ pkgs, cc }:
let
  inherit (pkgs) lib bash debian;

  initialPath = [
    pkgs.bash
    pkgs.coreutils
    pkgs.findutils
    pkgs.diffutils
    pkgs.gnused
    pkgs.gnugrep
    pkgs.gawk
    pkgs.gnutar
    pkgs.gzip
    pkgs.bzip2
    pkgs.gnumake
    pkgs.patch
    pkgs.xz
    pkgs.file
    pkgs.patchelf
  ];

  platform = {
    system = "x86_64-linux";
    config = "x86_64-unknown-linux-gnu";
    linuxArch = "x86_64";
    parsed.cpu.name = "x86_64";
    uname = {
      system = "Linux";
      processor = "x86_64";
    };
    extensions = {
      sharedLibrary = ".so";
      executable = "";
    };
    canExecute = _: true;
    is64bit = true;
    isAarch64 = false;
    isDarwin = false;
    isGnu = true;
    isLinux = true;
    isMusl = false;
    isStatic = false;
    isx86_64 = true;
  };

  name = if cc == null then "stdenv-debian-no-cc" else "stdenv-debian";

  drv = derivation {
    inherit name;
    system = "x86_64-linux";
    builder = "${debian.seed}/busybox";
    args = [
      "sh"
      "-euc"
      ''
        mkdir $out
        {
          echo "initialPath='$initialPath'"
          echo "defaultNativeBuildInputs='$cc'"
          echo "export SHELL='$bash/bin/bash'"
          cat $setup
        } >$out/setup
      ''
    ];
    inherit bash initialPath;
    cc = if cc == null then "" else cc;
    setup = ./setup.sh;
    preferLocalBuild = true;
    allowSubstitutes = false;
  };

  stdenv = drv // {
    inherit name cc initialPath;
    shell = "${bash}/bin/bash";
    hasCC = cc != null;
    hostPlatform = platform;
    buildPlatform = platform;
    targetPlatform = platform;
    inherit (platform) isLinux isDarwin isx86_64;
    mkDerivation = import ./make-derivation.nix { inherit lib pkgs stdenv; };
    meta = { };
  };
in
stdenv
