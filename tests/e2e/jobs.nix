# What is recorded: small jobs, each with the session's mark in its name and in what it makes.
#
# As a flake that takes rewind as an input has them (conftest.py writes that flake).
{
  pkgs,
  mark,
}:

let
  job =
    name: args: script:
    pkgs.runCommand "${name}-${mark}" args script;

  # Without a stdenv: the image has no more than the sandbox's shell.
  bare =
    name: args:
    derivation (
      {
        name = "${name}-${mark}";
        system = "x86_64-linux";
        builder = "${pkgs.busybox-sandbox-shell}/bin/busybox";
        args = [
          "sh"
          "-c"
          "echo made > $out"
        ];
      }
      // args
    );

  # A C program that is the builder itself.
  program =
    name:
    let
      package = pkgs.runCommandCC "program-${name}" { } ''
        mkdir -p $out/bin
        cp ${./programs}/${name}.c .
        $CC -Og -g -Wall -Werror -pthread -Wl,-z,now -o $out/bin/${name} ${name}.c
      '';
    in
    bare name {
      builder = "${package}/bin/${name}";
      args = [ ];
    };

  # A script of a shell that has all of busybox.
  busybox =
    name: script:
    bare name {
      builder = "${pkgs.busybox}/bin/busybox";
      args = [
        "sh"
        "-euc"
        script
      ];
      PATH = "${pkgs.busybox}/bin";
    };

  broken = pkgs.runCommand "broken-${mark}" { } ''
    echo "no luck today"
    exit 1
  '';
in
{
  # What the tests themselves use.
  inherit (pkgs) elfutils gdb openssh;

  # The processes' order is in its log.
  hello = job "hello" { outputs = [ "out" "doc" ]; } ''
    echo "hello on $(nproc) of $NIX_BUILD_CORES"
    for i in 1 2 3; do
      (sleep 0.$i; echo "child $i") &
    done
    wait
    echo ${mark} > $out
    mkdir $doc
    echo "about $out" > $doc/README
  '';

  bare = bare "bare" { };

  # --- builds that do not end well

  fails = job "fails" { } ''
    echo "about to fail"
    exit 3
  '';

  killed =
    let
      crash = pkgs.runCommandCC "crash" { } ''
        echo 'int main(void) { *(volatile int *)0 = 1; return 0; }' > crash.c
        mkdir -p $out/bin
        $CC -o $out/bin/crash crash.c
      '';
    in
    bare "killed" {
      builder = "${crash}/bin/crash";
      args = [ ];
    };

  stalls = job "stalls" { } ''
    mkfifo pipe
    read line < pipe
  '';

  spins = job "spins" { } ''
    echo "round and round"
    while :; do :; done
  '';

  # 240 MB of memory, of which the smallest machine has less.
  greedy = job "greedy" { } ''
    echo "more and more"
    head -c 240000000 /dev/zero | tail -n 1 | wc -c > $out
  '';

  # 40 MB of output.
  large = job "large" { } ''
    head -c 40000000 /dev/urandom > $out
  '';

  brokenInput = job "broken-input" { inherit broken; } "touch $out";

  # --- builds whose end may depend on who runs when

  early = program "early";

  counted = program "counted";

  deadlock = program "deadlock";

  later = program "later";

  turns = program "turns";

  written = program "written";

  writers = program "writers";

  sharing = program "sharing";

  # Compiled in the run itself, in C++.
  shapes = pkgs.stdenv.mkDerivation {
    name = "shapes-${mark}";
    src = ./programs/shapes.cc;
    dontUnpack = true;
    buildPhase = "$CXX -O0 -g -pthread -o shapes $src";
    doCheck = true;
    checkPhase = "./shapes";
    installPhase = "cp shapes $out";
  };

  # With a library whose debug information is in an output that is not called debug.
  greets =
    let
      greet =
        pkgs.runCommandCC "greet"
          {
            outputs = [
              "out"
              "symbols"
            ];
          }
          ''
            library=$out/lib/libgreet.so
            mkdir -p $out/lib $symbols
            $CC -O1 -g -fPIC -shared -Wl,--build-id -o $library ${./programs/greet.c}
            objcopy --only-keep-debug $library $symbols/libgreet.so.debug
            strip --strip-unneeded $library
          '';
      greeter = pkgs.runCommandCC "greeter" { } ''
        mkdir -p $out/bin
        echo 'void greet(int); int main(void) { for (int i = 0; i < 3; i++) greet(i); }' > main.c
        $CC -O1 -g -o $out/bin/greeter main.c -L${greet}/lib -lgreet -Wl,-rpath,${greet}/lib
      '';
    in
    bare "greets" {
      builder = "${greeter}/bin/greeter";
      args = [ ];
    }
    // {
      inherit (greet) symbols;
    };

  # What a post-build hook gets to see.
  hooked = bare "hooked" { };
  unhooked = bare "unhooked" { };
  daemonized = bare "daemon" { };
  hookedRace = bare "hooked-race" {
    builder = "${pkgs.busybox}/bin/busybox";
    args = [
      "sh"
      "-euc"
      "for i in 1 2 3; do (echo $i >> $out) & done; wait"
    ];
    PATH = "${pkgs.busybox}/bin";
    rewindHook = "check";
  };

  # It fails whoever runs when.
  failsAlways = busybox "fails-always" ''
    (sleep 0.001; echo child) &
    wait
    exit 3
  '';

  # It has no end, whoever runs when.
  endless = busybox "endless" ''
    (sleep 0.01; echo child) &
    while :; do :; done
  '';

  # The lines' order is that of the writers.
  lines = busybox "lines" ''
    for i in 1 2 3; do
      (echo $i >> $out) &
    done
    wait
  '';

  # One is still there when the builder has ended.
  leaves = busybox "leaves" ''
    (echo soon; sleep 5; echo never) &
    (sleep 0.001; echo child) &
    wait $!
    echo made > $out
  '';

  # --- what a root that has nothing to do with Nix is made of: it needs no other file

  # In the stand-in for nixpkgs it is linked statically anyway.
  shell = (pkgs.pkgsStatic or pkgs).busybox;

  tally =
    pkgs.runCommandCC "tally" { buildInputs = [ (pkgs.glibc.static or pkgs.glibc) ]; }
      ''
        mkdir -p $out/bin
        cp ${./programs/tally.c} tally.c
        $CC -O0 -g -static -pthread -fdebug-prefix-map=$PWD=/src -o $out/bin/tally tally.c
      '';

  # --- what the machine is no place for

  fixedOutput = bare "fixed-output" {
    outputHash = "sha256-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    outputHashMode = "recursive";
  };

  otherSystem = bare "other-system" { system = "aarch64-linux"; };

  needsKvm = bare "needs-kvm" { requiredSystemFeatures = [ "kvm" ]; };

  noChroot = bare "no-chroot" { __noChroot = true; };

  contentAddressed = bare "content-addressed" {
    __contentAddressed = true;
    outputHashAlgo = "sha256";
    outputHashMode = "recursive";
  };
}
