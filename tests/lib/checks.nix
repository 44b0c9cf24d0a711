# Checks of lib/ that pure evaluation and Nix's sandbox allow; tests/lib/run has the others.
{
  pkgs,
  rewind,
  # the part of the tree that the command line takes its runs from (python/default.nix)
  source,
}:

let
  inherit (pkgs) lib;
  inherit (lib) elemAt length;

  samples = import ./samples.nix { inherit pkgs; };

  layerSamples = {
    inherit (samples)
      bank
      exportReferencesGraph
      mentions
      sources
      stdenvOutput
      structured
      ;
  };

  # A text with all that a derivation is made of has the closure of its inputs, and itself.
  needs =
    drv:
    pkgs.writeText "needs-of-layers" (
      builtins.toJSON [
        drv.drvAttrs
        "${pkgs.busybox-sandbox-shell}"
      ]
    );

  # With the context Nix would refuse to look where there is nothing.
  hasFile = file: builtins.pathExists (builtins.unsafeDiscardStringContext "${source}/${file}");

  drvPath = drv: builtins.unsafeDiscardStringContext drv.drvPath;

  # Fails at build time, so that all checks are told of.
  same =
    name: pairs:
    pkgs.runCommand "rewind-check-${name}" { } (
      lib.concatMapStrings (
        {
          what,
          a,
          b,
          differ ? false,
        }:
        let
          equals = if differ then "=" else "!=";
        in
        ''
          if [ ${lib.escapeShellArg a} ${equals} ${lib.escapeShellArg b} ]; then
            echo ${lib.escapeShellArg "${what}: ${a}, ${b}"}
            exit 1
          fi
        ''
      ) pairs
      + "touch $out"
    );
in
{
  # The command line evaluates a copy of the tree in which its own code is not. That copy names
  # the same runs, so a change of the command line's code cannot change a run's hash.
  source = same "source" [
    {
      what = "the run of bank, from the flake and from the command line's source";
      a = drvPath (rewind.run { drv = samples.bank; });
      b =
        # `nix flake check --no-build` copies nothing to the store: there is no source then, and
        # what this gives instead does not pass.
        if hasFile "lib/default.nix" then
          drvPath ((import "${source}/lib" { inherit pkgs; }).run { drv = samples.bank; })
        else
          "nothing, as the store is only read";
    }
    {
      what = "the command line is part of its source";
      a = lib.boolToString (hasFile "python/rewind/cli/__init__.py");
      b = "false";
    }
  ];

  # A search's unperturbed run is the run, a check's search is the search.
  search =
    let
      drv = samples.bank;
      bounds = {
        inherit drv;
        schedules = 3;
        all = true;
        cores = 2;
      };
      run = rewind.run {
        inherit drv;
        cores = 2;
      };
      search = rewind.search bounds;
      check = rewind.check bounds;
      sharded = rewind.search (bounds // { shards = 2; });
    in
    same "search" [
      {
        what = "the unperturbed run of a search, and the run";
        a = drvPath search.unperturbed;
        b = drvPath run;
      }
      {
        what = "the unperturbed run of a check, and the run";
        a = drvPath check.unperturbed;
        b = drvPath run;
      }
      {
        what = "a check's search, and the search";
        a = drvPath check.search;
        b = drvPath search;
      }
      {
        what = "a search with other bounds";
        a = drvPath search;
        b = drvPath (rewind.search (bounds // { schedules = 4; }));
        differ = true;
      }
      {
        what = "how many shards the last of them reads";
        a = toString (length sharded.drvAttrs.parts);
        b = "2";
      }
    ];

  # An edit of a source packs that source, and nothing else.
  edit =
    let
      layers = drv: rewind.image (rewind.job drv).inputs;
      before = layers samples.bank;
      after = layers (samples.bank.overrideAttrs { src = ./.; });
      layer = number: {
        what = "layer ${toString number} before and after an edit";
        a = drvPath (elemAt before number);
        b = drvPath (elemAt after number);
      };
    in
    same "edit" [
      (layer 0)
      (layer 1)
      (layer 2 // { differ = true; })
    ];

  # The layers together hold the closure of what the job needs, each path once, as it is in the
  # store.
  layers =
    pkgs.runCommand "rewind-check-layers"
      {
        __structuredAttrs = true;

        nativeBuildInputs = [
          pkgs.erofs-utils
          pkgs.jq
        ];

        checks = lib.mapAttrs (
          name: drv:
          let
            layers = rewind.image (rewind.job drv).inputs;
          in
          {
            images = map toString layers;
            paths = map (layer: toString layer.paths) layers;
            closure = "closure-${name}";
          }
        ) layerSamples;

        exportReferencesGraph = lib.mapAttrs' (
          name: drv: lib.nameValuePair "closure-${name}" [ (needs drv) ]
        ) layerSamples;
      }
      ''
        attributes=$NIX_ATTRS_JSON_FILE

        modes() {
          find "$1" ! -type l -printf '%m %P\n' | sort
        }

        for name in $(jq -r '.checks | keys[]' "$attributes"); do
          of_check() {
            jq -r --arg name "$name" ".checks[\$name] | $1" "$attributes"
          }

          jq -r --arg closure "$(of_check .closure)" '.[$closure][].path' "$attributes" \
            | grep -v -- '-needs-of-layers$' | sort > expected
          cat $(of_check '.paths[]') | sort | diff expected -

          for image in $(of_check '.images[]'); do
            fsck.erofs --extract=root --overwrite --no-preserve-owner --preserve-perms \
              "$image" > log 2>&1 || { cat log; exit 1; }
          done
          ls -d root/nix/store/* | sed 's,^root,,' | diff expected -
          while read -r path; do
            diff -r --no-dereference "$path" "root$path"
            diff <(modes "$path") <(modes "root$path")
          done < expected

          echo "$name: $(wc -l < expected) paths"
          chmod -R u+w root
          rm -rf root
        done
        touch $out
      '';
}
