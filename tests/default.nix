# The flake's checks: all tests that fit Nix's sandbox.
{
  pkgs,
  rewind,
  # the flake's packages
  packages,
  # those of them that come from examples/
  examples,
  # the flake's modules: for flake-parts, and for NixOS
  modules,
}:

let
  inherit (pkgs) lib;

  prefixed = prefix: lib.mapAttrs' (name: lib.nameValuePair "${prefix}-${name}");

  determinism = pkgs.callPackage ./determinism { inherit (packages) recorder; };

  fidelity = pkgs.callPackage ./fidelity { inherit rewind; };

  positions = pkgs.callPackage ./positions { inherit rewind; };

  cases = pkgs.callPackage ./fidelity/cases.nix { };

  searches = pkgs.callPackage ./search {
    inherit rewind examples;
    inherit (packages) recorder;
  };

  # What is recorded again and again.
  repeated = {
    inherit (packages) bank;

    # Background jobs, pipes, sleep, /dev/urandom, and no stdenv.
    busybox = derivation {
      name = "busybox";
      system = "x86_64-linux";
      builder = "${pkgs.busybox}/bin/busybox";
      PATH = "${pkgs.busybox}/bin";
      args = [
        "sh"
        "-euc"
        ''
          mkfifo pipe
          for i in 1 2 3; do
            (sleep 0.0$i; head -c 4 /dev/urandom | od -An -tx4; echo "$i") > pipe &
          done
          sort < pipe
          wait
          date +%s
          echo "$RANDOM" > $out
        ''
      ];
    };

    # Nothing but idle times, each ended by a timer.
    sleeps = derivation {
      name = "sleeps";
      system = "x86_64-linux";
      builder = "${pkgs.busybox}/bin/busybox";
      PATH = "${pkgs.busybox}/bin";
      args = [
        "sh"
        "-euc"
        "for i in $(seq 400); do sleep 0.00$((i % 10)); done; echo done > $out"
      ];
    };

    threads = pkgs.runCommand "threads" { nativeBuildInputs = [ pkgs.python3 ]; } ''
      python3 ${./threads.py} > $out
      cat $out
    '';
  };
in
prefixed "lib" (
  import ./lib/checks.nix {
    inherit pkgs rewind;
    inherit (packages.rewind) source;
  }
)
// prefixed "determinism" (
  lib.mapAttrs (
    name: drv:
    determinism {
      inherit name;
      run = rewind.run { inherit drv; };
    }
  ) repeated
)
// prefixed "positions" (
  lib.mapAttrs (name: where: positions ({ inherit name; } // where)) {
    bank = {
      drv = packages.bank;
      # In between it has seen the balance, and changes it.
      call = 4;
      instructions = 3;
    };
    # No call is in its loop.
    counter = {
      drv = examples.counter;
      call = 3;
      instructions = 1234;
    };
  }
)
// prefixed "same" (lib.mapAttrs (_: fidelity.same) cases.same)
// prefixed "outcome" (lib.mapAttrs (_: fidelity.outcome) cases.outcome)
// prefixed "search" searches.checks
// prefixed "module" (import ./modules { inherit pkgs packages modules rewind; })
// prefixed "python" packages.rewind.tests
// prefixed "style" (
  # callPackage adds these two.
  removeAttrs (pkgs.callPackage ./style { }) [
    "override"
    "overrideDerivation"
  ]
)
// prefixed "example" (
  lib.mapAttrs (
    name: package:
    if lib.hasSuffix "-fixed" name then
      package
    else
      # Its check, or its build by two jobs, fails now and then: that is what it is for.
      package.overrideAttrs (_: {
        doCheck = false;
        enableParallelBuilding = false;
        env.NIX_CFLAGS_COMPILE = "-Werror";
      })
  ) examples
)
// {
  # Its checkPhase has the unit tests.
  inherit (packages) rewind;

  init = pkgs.callPackage ./init { };
  kernel = pkgs.callPackage ./kernel { inherit (packages) machine; };
  inspect = pkgs.callPackage ./inspect {
    inherit rewind;
    inherit (packages) kernel;
  };
  replay = pkgs.callPackage ./replay {
    inherit rewind;
    inherit (packages) bank;
  };
  watch = pkgs.callPackage ./watch {
    inherit rewind;
    inherit (packages) kernel plugin;
    # Threads, and short processes.
    jobs = { inherit (packages) bank sigpipe; };
    analysed = lib.filterAttrs (
      name: _: !lib.hasSuffix "-fixed" name && name != "bank" && name != "sigpipe"
    ) examples;
  };
}
// lib.optionalAttrs (pkgs ? debian) {
  # Of the stand-in for nixpkgs: does each of its packages run?
  debian = pkgs.debian.smoke;
}
