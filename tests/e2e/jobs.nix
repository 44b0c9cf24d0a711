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

  broken = pkgs.runCommand "broken-${mark}" { } ''
    echo "no luck today"
    exit 1
  '';
in
{
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
