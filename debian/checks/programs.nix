# Does each package run in the sandbox? Builds if all do; prints a line a program.
pkgs:
let
  python = pkgs.python3.withPackages (
    ps: with ps; [
      attrs
      cbor2
      click
      drgn
      hypothesis
      mypy
      pyelftools
      pytest
      pyyaml
      qemu-qmp
      rich
      zstandard
    ]
  );
  application = pkgs.writeShellApplication {
    name = "application";
    runtimeInputs = [ pkgs.jq ];
    text = "jq -n 1+1";
  };
  joined = pkgs.symlinkJoin {
    name = "joined";
    paths = [
      pkgs.jq
      pkgs.bc
    ];
  };
in
pkgs.runCommandCC "debian-programs"
  {
    nativeBuildInputs = with pkgs; [
      bc
      bison
      cpio
      dtc
      elfutils
      erofs-utils
      file
      flex
      gawk
      gdb
      hyperfine
      jq
      m4
      makeWrapper
      meson
      ninja
      openssh
      patchelf
      perl
      pkg-config
      python
      qemu-bin
      removeReferencesTo
      rsync
      ruff
      shellcheck
      strace
      stress-ng
      util-linux
      which
    ];
    buildInputs = with pkgs; [
      elfutils
      glib
      glibc.static
      lz4
      ncurses
      openssl
      zlib
      zstd
    ];
    inherit application joined;
    sandboxShell = pkgs.busybox-sandbox-shell;
    closure = pkgs.closureInfo { rootPaths = [ pkgs.jq ]; };
    writtenClosure = pkgs.writeClosure [ pkgs.jq ];
    programs = ./programs;
    passthru = { inherit python; };
  }
  ''
    export HOME=$NIX_BUILD_TOP
    cp -r $programs/. .
    failed=0
    # works NAME COMMAND…
    works() {
      local name=$1
      shift
      if "$@" >output 2>&1; then
        echo "ok   $name: $(head -n1 output | cut -c1-90)"
      else
        echo "FAIL $name: $*"
        cat output
        failed=$((failed + 1))
      fi
    }

    for program in bison cpio debuginfod dtc eu-readelf file flex gawk gdb hyperfine jq m4 \
      meson mypy ninja patchelf pytest qemu-system-x86_64 rsync ruff shellcheck strace \
      lsblk; do
      works $program $program --version
    done
    works busybox ${pkgs.busybox}/bin/ls
    works mkfs.erofs mkfs.erofs -V
    works perl perl -v
    works stress-ng stress-ng --version
    works bc bash -c 'echo "6 * 7" | bc'
    works which which ls
    works ssh ssh -V
    works sshd sshd -V
    ssh-keygen -q -t ed25519 -N "" -f host-key
    # (its other half is nowhere but in its package)
    works sshd-session bash -c 'sshd -T -f /dev/null -h "$PWD/host-key" |
      sed -n "s/^sshdsessionpath //p" | grep ^/nix/store | xargs ls'
    works perl-modules perl -MPOSIX -MData::Dumper -e 'print $]'
    works python-modules python3 -c '
    import attrs, cbor2, click, drgn, elftools, hypothesis, mypy, pytest, qemu.qmp, rich, yaml, zstandard
    from elftools.elf.elffile import ELFFile
    print(ELFFile(open("${pkgs.jq}/bin/jq", "rb")).header.e_type)'
    works python-venv python3 -m venv venv

    works flex flex lexer.l
    works compile-lexer gcc lex.yy.c -o lexer
    works bison bison parser.y
    works compile-parser gcc parser.tab.c -o parser
    works parser ./parser
    works compile-libraries gcc -g libraries.c -o libraries \
      $(pkg-config --cflags --libs glib-2.0 libcrypto libzstd libelf libdw zlib)
    works libraries ./libraries
    works compile-c++ g++ threads.cc -o threads
    works c++ ./threads
    works compile-static gcc -static static.c -o static -lm
    works static ./static
    works gdb gdb -batch -ex 'python import json, sys; print(sys.version)' -ex 'break main' -ex run \
      -ex backtrace libraries
    grep -q 'main ()' output || { echo "FAIL gdb does not stop in main"; failed=$((failed + 1)); }

    works shell-application $application/bin/application
    works joined $joined/bin/jq -n 2
    makeWrapper $(command -v jq) wrapped --set A 1 --add-flags "-n 3"
    works wrapped ./wrapped
    cp ${pkgs.writeText "text" "@x@ y"} text
    chmod +w text
    substituteInPlace text --replace-fail y z --subst-var-by x X
    works substitute test "$(cat text)" = "X z"
    works ninja-hook test "$buildPhase" = ninjaBuildPhase
    works meson-hook test "$configurePhase" = mesonConfigurePhase
    works closure grep -x ${pkgs.jq} $closure/store-paths
    works written-closure diff $writtenClosure $closure/store-paths
    # the sandbox's shell is the one in the set
    works sandbox-shell cmp /bin/sh $sandboxShell/bin/busybox
    works sandbox-shell-runs-path /bin/sh -c 'ar --version; ls --version | grep GNU'

    [ $failed = 0 ]
    echo ok >$out
  ''
