# Derivations that look at what a builder is given, one property each. Each writes what it saw
# to its outputs, so that two builders that give the same give the same outputs.
{
  lib,
  bash,
  busybox-sandbox-shell,
  coreutils,
  hello,
  jq,
  python3,
  runCommand,
  runCommandCC,
  stdenv,
  stdenvNoCC,
  writeText,
}:

let
  crash = runCommandCC "crash" { } ''
    echo 'int main(void) { *(volatile int *)0 = 1; return 0; }' > crash.c
    mkdir -p $out/bin
    $CC -o $out/bin/crash crash.c
  '';
in
{
  # The same outputs as under Nix.
  same = {
    passAsFile = runCommand "pass-as-file" {
      text = lib.concatStrings (lib.genList (n: "line ${toString n} of a long text\n") 2000);
      quoted = "a 'b' \"c\" $d \\e \n\ttab";
      passAsFile = [
        "text"
        "quoted"
      ];
    } ''
      [ -z "''${text+set}" ]
      { ls -la --time-style=+ "$textPath" "$quotedPath"; cat "$textPath" "$quotedPath"; } > $out
    '';

    structuredAttrs = stdenvNoCC.mkDerivation {
      name = "structured-attrs";
      __structuredAttrs = true;
      outputs = [
        "out"
        "doc"
      ];
      integer = 7;
      negative = -3;
      float = 1.5;
      true' = true;
      false' = false;
      null' = null;
      list = [
        "a b"
        "it's"
        "c"
      ];
      mixed = [
        1
        "two"
        { three = 3; }
      ];
      map = {
        key = "va'lue";
        other = 4;
      };
      nested.deep.er = [ 1 ];
      quoted = "a 'b' \"c\" $d \\e \n\ttab ünï";
      exportReferencesGraph.closure = [ bash ];
      nativeBuildInputs = [ jq ];
      buildCommand = ''
        mkdir -p "$out" "$doc"
        cp "$NIX_ATTRS_SH_FILE" "$out/attrs.sh"
        jq -S . "$NIX_ATTRS_JSON_FILE" > "$out/attrs.json"
        declare -p list map integer quoted true\' > "$doc/declared" 2>/dev/null || declare -p list map integer quoted > "$doc/declared"
        env | grep ^NIX_ATTRS > "$doc/env"
        stat -c '%a %u %g %s' "$NIX_ATTRS_SH_FILE" "$NIX_ATTRS_JSON_FILE" > "$doc/stat"
      '';
    };

    multipleOutputs = runCommand "multiple-outputs" {
      outputs = [
        "dev"
        "out"
        "lib"
      ];
    } ''
      mkdir -p $out/bin $dev $lib/empty
      echo "dev knows $out and $lib" > $dev/refs
      printf '#!/bin/sh\necho hi\n' > $out/bin/hi
      chmod 755 $out/bin/hi
      chmod 600 $dev/refs
      ln -s ../hi $out/bin/link
      ln -s /nonexistent "$lib/a link with spaces"
      touch -d 2001-02-03 $lib/old
      echo "plain file" > $lib/"ümläut"
      head -c 3000001 /dev/zero > $lib/zeros
      ln $lib/zeros $lib/hardlink
    '';

    # An output that is a file, one that is a symbolic link.
    outputKinds = runCommand "output-kinds" {
      outputs = [
        "out"
        "link"
        "exe"
      ];
    } ''
      echo text > $out
      ln -s $out $link
      printf '#!/bin/sh\n' > $exe
      chmod 700 $exe
    '';

    exportReferencesGraph = runCommand "export-references-graph" {
      exportReferencesGraph = [
        "bash"
        bash
        "two"
        (writeText "two" "${bash} ${coreutils}")
      ];
    } "mkdir $out; cp bash two $out";

    # bash becomes the last program, which closes its output before it exits.
    closesLast = derivation {
      name = "closes-last";
      system = "x86_64-linux";
      builder = "${bash}/bin/bash";
      args = [
        "-c"
        ''${coreutils}/bin/ln -s nowhere "$out"''
      ];
    };

    # A builder that is no bash, and no stdenv.
    notBash = derivation {
      name = "not-bash";
      system = "x86_64-linux";
      builder = "${busybox-sandbox-shell}/bin/busybox";
      args = [
        "sh"
        "-c"
        ''unset NIX_BUILD_CORES; set > $out; echo "args $0 $# $@" >> $out; echo "pid $$ ppid $PPID" >> $out''
        "zero"
        "one two"
        ""
        "three"
      ];
    };

    python = derivation {
      name = "python";
      system = "x86_64-linux";
      builder = "${python3}/bin/python3";
      # Nix starts a builder by its base name. Debian's Python, in the stand-in for nixpkgs, looks
      # for its library beside itself, and does not find itself by that.
      PYTHONHOME = python3;
      args = [
        "-c"
        (lib.replaceStrings [ "@input@" ] [ "${bash}/bin/bash" ] (builtins.readFile ./look.py))
      ];
    };

    # 2,000 processes, 200 of them at a time.
    processes = runCommand "processes" { } ''
      for round in {1..10}; do
        for i in {1..200}; do
          (echo $((round * 1000 + i)) >> numbers) &
        done
        wait
      done
      sort -n numbers > $out
      [ "$(wc -l < $out)" = 2000 ]
    '';

    devices = runCommand "devices" { } ''
      {
        head -c 10 /dev/zero | od -An -tx1
        echo lost > /dev/null
        [ "$(head -c 1000 /dev/urandom | wc -c)" = 1000 ]
        [ "$(head -c 10 /dev/random | wc -c)" = 10 ]
        (echo full > /dev/full) 2>&1 || echo "full is full"
        echo shm > /dev/shm/x && cat /dev/shm/x
        cat <(echo process substitution)
        echo stderr > /dev/stderr
        cat /dev/tty 2>&1 || true
        df / > /dev/null
      } > $out
    '';

    compile = runCommandCC "compile" { } ''
      echo 'int main(void) { return 42; }' > a.c
      $CC -O2 -g a.c -o $out
      status=0; $out || status=$?
      [ $status = 42 ]
    '';

    hello = stdenv.mkDerivation {
      inherit (hello) pname version src;
      doCheck = true;
    };
  };

  # Builds that do not end well.
  outcome = {
    fails = {
      drv = runCommand "fails" { } "echo about to fail; exit 3";
      outcome = {
        kind = "exited";
        value = 3;
      };
      log = "about to fail";
    };

    # As PID 1 of its namespace a builder can't kill itself, but it can crash.
    crashes = {
      drv = derivation {
        name = "crashes";
        system = "x86_64-linux";
        builder = "${crash}/bin/crash";
      };
      outcome = {
        kind = "signaled";
        value = 11;
      };
    };

    childKilled = {
      drv = runCommand "child-killed" { } "bash -c 'kill -9 \$\$'";
      outcome = {
        kind = "exited";
        value = 137;
      };
    };

    # Nix takes a builder without output to be done, and kills it.
    closesOutput = {
      drv = runCommand "closes-output" { } "exec >&- 2>&-; sleep 1; touch $out";
      outcome = {
        kind = "signaled";
        value = 9;
      };
    };

    noBuilder = {
      drv = derivation {
        name = "no-builder";
        system = "x86_64-linux";
        builder = "/nowhere/builder";
      };
      outcome = {
        kind = "exited";
        value = 1;
      };
      log = "/nowhere/builder";
    };

    noOutput = {
      drv = runCommand "no-output" { } "echo no output here";
      outcome = {
        kind = "exited";
        value = 0;
      };
      log = "no output here";
    };

    # Two threads of execution wait for each other: nothing can ever run again.
    stalls = {
      drv = runCommand "stalls" { } ''
        mkfifo a b
        (read x < a; echo > b) &
        read x < b
        touch $out
      '';
      outcome = {
        kind = "stalled";
        value = 0;
      };
    };

    # Sleeping is not stalling.
    sleeps = {
      drv = runCommand "sleeps" { } "sleep 3000; echo rested; touch $out";
      outcome = {
        kind = "exited";
        value = 0;
      };
      log = "rested";
    };

    spins = {
      drv = runCommand "spins" { } "while :; do :; done";
      outcome = {
        kind = "timed-out";
        value = 0;
      };
      options.timeLimit = 1;
    };

    oversleeps = {
      drv = runCommand "oversleeps" { } "sleep 3000; touch $out";
      outcome = {
        kind = "timed-out";
        value = 0;
      };
      options.timeLimit = 60;
    };

    largeLog = {
      drv = runCommand "large-log" { } ''
        line=$(printf '%0999d' 0)
        for i in {1..100000}; do echo "$line"; done
        echo the last line
        touch $out
      '';
      outcome = {
        kind = "exited";
        value = 0;
      };
      log = "the last line";
    };
  };
}
