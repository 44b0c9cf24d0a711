# gcc with a libc in the store, and the stdenvs.
final: prev:
let
  inherit (final) lib debian bash;
  inherit (debian) multiarch libc;

  makeStdenv = cc: import ../stdenv { pkgs = final; inherit cc; };
in
{
  glibc = debian.dress {
    passthru = {
      dev = debian.dress { } (
        debian.tree {
          name = "glibc-dev";
          sets = [ "libc-dev" ];
          without = [ "libc" ];
          interpreter = "";
        }
      );
      static = final.glibcStatic;
    };
  } libc;

  # The static libraries alone. gcc finds them also without: they are in its sysroot.
  glibcStatic = debian.dress { } (
    debian.tree {
      name = "glibc-static";
      sets = [ "libc-dev" ];
      without = [ "libc" ];
      interpreter = "";
      post = ''
        mv $out/usr/lib/$multiarch libraries
        rm -rf $out/usr
        mkdir -p $out/usr/lib/$multiarch
        mv libraries/*.a $out/usr/lib/$multiarch/
        # libm.a is a script for the linker, with absolute paths
        sed -i "s@ /usr/lib/@ $out/usr/lib/@g" $out/usr/lib/$multiarch/libm.a
        for file in $out/usr/lib/$multiarch/*.a; do ln -s $multiarch/''${file##*/} $out/usr/lib/; done
      '';
    }
  );

  gcc = debian.package "gcc" {
    without = [ "libc" ];
    keep = [
      "libc6-dev"
      "libcrypt-dev"
      "linux-libc-dev"
    ];
    interpreters = [ bash ];
    passthru = {
      cc = final.gcc;
      lib = final.glibc;
      libc = final.glibc;
      bintools = final.binutils;
      targetPrefix = "";
      isGNU = true;
      isClang = false;
    };
    extra = {
      inherit libc;
      shell = "${bash}/bin/bash";
      wrapper = ../stdenv/gcc-wrapper.sh;
    };
    post = builtins.readFile ../stdenv/gcc.sh;
  };

  stdenv = makeStdenv final.gcc;
  stdenvNoCC = makeStdenv null;
  gccStdenv = final.stdenv;
  overrideCC = _: makeStdenv;
}
