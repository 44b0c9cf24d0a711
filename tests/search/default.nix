# Checks of searches, in Nix's sandbox: a report is the same however many derivations it is made in, and
# both runs that it names happen when a recorder makes them.
{
  lib,
  bash,
  busybox,
  coreutils,
  diffutils,
  gnugrep,
  jq,
  python3,
  runCommand,
  rewind,
  recorder,
  # the packages of examples/
  examples,
}:

let
  python = python3.withPackages (ps: [ ps.cbor2 ]);

  # Two processes and a file: what becomes of it depends on which of them is first.
  late = derivation {
    name = "late";
    system = "x86_64-linux";
    builder = "${busybox}/bin/busybox";
    PATH = "${busybox}/bin";
    args = [
      "sh"
      "-euc"
      ''
        echo one > file &
        sleep 0.02
        cat file > $out || echo none > $out
      ''
    ];
  };

  bounds = {
    drv = late;
    schedules = 8;
    # The other one finds it at once, in the first shard.
    strategy = "chance";
  };

  # A search, over one derivation and over several: the same files.
  shards =
    name: bounds:
    let
      sharded = map (shards: rewind.search (bounds // { inherit shards; })) [
        1
        2
        3
        4
      ];
    in
    runCommand "search-${name}" { } ''
      ${python}/bin/python3 ${./shards.py} ${toString sharded}
      touch $out
    '';

  # What `drv`'s search finds, made by the recorder: the same records, outcomes and outputs.
  replay =
    drv:
    {
      # what the report says of where the deciding position is, an extended regular expression
      decides,
      options ? { },
    }:
    let
      search = rewind.search ({ inherit drv; } // options);
    in
    derivation (
      removeAttrs search.unperturbed.drvAttrs [
        "outputs"
        "unsafeDiscardReferences"
      ]
      // {
        name = "search-${drv.name}";
        builder = "${bash}/bin/bash";
        args = [
          "-eu"
          ./replay.sh
        ];
        search = "${search}";
        inherit decides;
        recorder = "${recorder}/bin/rewind-recorder";
        same = ./same.py;
        path = lib.makeBinPath [
          coreutils
          diffutils
          gnugrep
          jq
          python
        ];
      }
    );

  # Every example that has a race, and the function, or the program, in which its window is.
  racy = {
    bank.decides = "deposit \\(bank\\.c:";
    config-reload.decides = "save \\(config-reload\\.c:";
    counter.decides = "count \\(counter\\.c:";
    etxtbsy.decides = "install_tool \\(etxtbsy\\.c:";
    gate.decides = "gate_wait \\(gate\\.c:";
    jobs.decides = "/bash$";
    makefile = {
      decides = "/(bash|make|sed)$";
      options.cores = 2;
    };
    once.decides = "make_table \\(once\\.c:";
    philosophers.decides = "dine \\(philosophers\\.c:";
    pidfile.decides = "write_pidfile \\(pidfile\\.c:";
    pool.decides = "work \\(pool\\.c:";
    queue.decides = "/python";
    rare.decides = "count \\(rare\\.c:";
    reaper.decides = "run \\(reaper\\.c:";
    replace.decides = "publish \\(replace\\.c:";
    replicas.decides = "rebuild \\(replicas\\.c:";
    ring.decides = "send_message \\(ring\\.c:";
    seqlock.decides = "look \\(seqlock\\.c:";
    sigpipe.decides = "/bash$";
    stack.decides = "take \\(stack\\.c:";
    waiter.decides = "\\(waiter\\.c:";
  };
in
{
  checks = lib.mapAttrs (name: replay examples.${name}) racy // {
    # Spread over derivations it is the same search.
    shards = shards "shards" bounds;
    shards-all = shards "shards-all" (bounds // { all = true; });
    # Each looks at the memory that threads access, and comes to the same schedules.
    shards-directed = shards "shards-directed" {
      drv = examples.replicas;
      schedules = 6;
    };
  };
}
