# What is measured: programs, the jobs that run them in the machine, and the runs of these.
#
# A workload is a program of the store, so that host and machine are given the same one, in the same
# environment.
{
  # path of nixpkgs
  nixpkgs,
}:

let
  system = "x86_64-linux";

  pkgs = import nixpkgs {
    inherit system;
    config = { };
    overlays = [ ];
  };
  inherit (pkgs) lib;

  rewind = import ../lib { inherit pkgs; };

  # A shell script with nothing on PATH but `inputs`.
  script =
    name: inputs: text:
    pkgs.writeScript name ''
      #!${pkgs.runtimeShell}
      set -euo pipefail
      export PATH=${lib.makeBinPath ([ pkgs.coreutils ] ++ inputs)}
      ${text}
    '';

  programs = pkgs.runCommandCC "rewind-bench-programs" { } ''
    mkdir -p $out/bin
    for source in ${./programs}/*.c; do
      cc -O2 -pthread -o $out/bin/$(basename $source .c) $source -lm
    done
  '';

  workloads = rec {
    nothing = script "nothing" [ ] "";

    integers = script "integers" [ ] "${programs}/bin/integers 3000000";

    floats = script "floats" [ ] "${programs}/bin/floats 200000";

    # 100 million, by two threads.
    accesses = script "accesses" [ ] "${programs}/bin/accesses 100";

    # What takes the most time in most builds: the machine's own init serves as the source.
    compile = script "compile" [ pkgs.stdenv.cc ] ''
      for source in ${../vm-configs/init}/{nar,params}.c; do
        gcc -O2 -g -c -o object.o "$source"
      done
    '';

    processes = script "processes" [ ] ''
      for ((i = 0; i < 200; i++)); do
        uname > /dev/null
      done
    '';

    python = script "python" [ pkgs.python3 ] "python3 ${./programs/python.py} 200000";

    # System calls, and hardly anything else.
    files = script "files" [ pkgs.gnutar ] ''
      for ((i = 0; i < 9; i++)); do
        tar --create --directory=${pkgs.python3} . | wc -c
      done
    '';

    # Much translated code, and then a guest that has much in use, and says how much.
    memory = script "memory" [ pkgs.gawk ] ''
      ${compile}
      head -c 600M /dev/zero > file
      awk '/^Mem(Total|Free)/ { print $1, $2 }' /proc/meminfo
    '';
  };

  toJob =
    name: program:
    derivation {
      inherit name system;
      builder = pkgs.runtimeShell;
      args = [
        "-euc"
        "${program}; : > $out"
      ];
    };

  # Built without their checks and by one job at a time: no race is lost yet.
  examples = lib.mapAttrs (
    _: package:
    package.overrideAttrs (_: {
      doCheck = false;
      enableParallelBuilding = false;
    })
  ) (import ../examples { inherit (pkgs) lib callPackage; });

  # What their checks run, for each that a patch mends, and spin.
  races =
    let
      inherit (examples) jobs makefile pidfile sigpipe;
    in
    lib.mapAttrs (_: lib.getExe) (lib.filterAttrs (name: _: !lib.hasSuffix "-fixed" name) examples)
    // {
      jobs = script "jobs" [ ] "exec ${lib.getExe jobs}";

      # The half of the build that depends on the order.
      makefile =
        script "makefile"
          [
            pkgs.gnumake
            pkgs.gnused
            pkgs.stdenv.cc
          ]
          ''
            cp ${makefile.src}/* .
            make -j2 CC=gcc version.h main.o
          '';

      pidfile = script "pidfile" [ pkgs.bash ] ''
        exec bash ${pidfile.src}/check.sh ${lib.getExe pidfile}
      '';

      sigpipe = script "sigpipe" [ ] "exec ${lib.getExe sigpipe}";
    };

  bank = pkgs.callPackage ../examples/bank { };
  spin = pkgs.callPackage ../examples/spin { };

  jobs = lib.mapAttrs toJob workloads // {
    inherit bank spin;
  };
in
{
  inherit workloads;

  races = pkgs.linkFarm "rewind-bench-races" races;

  # Under which they are run, too.
  stress = pkgs.stress-ng;

  runs = lib.mapAttrs (_: drv: rewind.run { inherit drv; }) jobs;

  # For watched.py.
  python = pkgs.python3.withPackages (ps: [
    ps.attrs
    ps.cbor2
    ps.drgn
    ps.pyelftools
    ps.zstandard
  ]);

  # What stands for the machine; made once, for all runs.
  inherit (rewind) packages;

  snapshot = rewind.bootSnapshot { inherit (rewind.defaults) memory; };
}
