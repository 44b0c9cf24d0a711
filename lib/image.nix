# What a job needs, as read-only file systems for the machine: up to four layers, lowest first.
#
#   0  the closure of its stdenv, and of the sandbox's /bin/sh
#   1  the closure of the other derivations among its inputs
#   2  its plain sources
#
# less what a lower layer has. Which layers there are, and what is in them, follows how often each
# changes: an edit of a job's source makes layer 2 anew, a few milliseconds, and leaves alone the
# toolchain's hundreds of megabytes. A layer of nothing is left out.
#
# A layer is an erofs image without compression: the machine has it as memory and counts every
# instruction, so what packing would save in space it would cost in guest time. The file holds
# nix/store/…; the paths' names are in `paths`, a second output.
#
# A job with a root of its own (lib/root.nix) has that as its only layer.
#
# The files go from the store into the image as a tar stream, without a copy on the way. The
# stream says all that the image depends on: the store's hard links (an optimised store has some,
# another has none) and the time of packing are kept out of it, so that an image is the same to
# the bit wherever it is made.
{
  lib,
  stdenvNoCC,
  erofs-utils,
  jq,
  writeText,
  shell,
  # bytes; docs/design.md: what the guest sees of a layer
  window ? 64 * 1024 * 1024 * 1024,
}:

let
  layer =
    {
      name,
      lower,
      roots,
      # paths of the closure that are no part of the layer
      without ? [ ],
    }:
    stdenvNoCC.mkDerivation {
      name = "rewind-layer-${name}";

      __structuredAttrs = true;

      outputs = [
        "out"
        "paths"
      ];

      exportReferencesGraph.closure = roots;

      lower = map (layer: layer.paths) lower;

      inherit without;

      # As text: of a number bash would be told the low 32 bits.
      window = toString window;

      nativeBuildInputs = [
        erofs-utils
        jq
      ];

      # It holds copies of the paths; nothing that uses it needs the paths themselves.
      unsafeDiscardReferences = {
        out = true;
        paths = true;
      };

      buildCommand = ''
        export LC_ALL=C

        jq --raw-output '.closure[].path' "$NIX_ATTRS_JSON_FILE" | sort > closure
        { printf '%s\n' "''${without[@]}"; cat /dev/null "''${lower[@]}"; } | sort > lower
        comm -23 closure lower > "$paths"

        mkdir --parents --mode=755 root/nix/store

        # It would take the place of -T.
        unset SOURCE_DATE_EPOCH

        sed 's,^/,,' "$paths" \
          | tar --create --format=gnu --sort=name \
              --hard-dereference --mtime=@1 --owner=0 --group=0 --numeric-owner \
              --directory="$PWD/root" --no-recursion . ./nix ./nix/store \
              --directory=/ --recursion --files-from=- \
          | mkfs.erofs --quiet --tar=f --all-root -T1 \
              -U 00000000-0000-0000-0000-000000000000 "$out"

        size=$(stat --format=%s "$out")
        if ((size > window)); then
          echo "rewind: the inputs need $size bytes in a layer, and it has room for $window" >&2
          exit 1
        fi
      '';
    };

  image = inputs: if inputs ? root then [ inputs.root ] else closures inputs;

  closures =
    {
      toolchain,
      others,
      sources,
    }:
    let
      layers =
        [
          {
            name = "toolchain";
            roots = toolchain ++ [ "${shell}" ];
          }
        ]
        ++ lib.optional (others != [ ]) rec {
          name = "inputs";
          # Its references are the paths wanted (lib/job.nix), itself it is none of them.
          roots = [ "${writeText "rewind-inputs" (lib.concatLines others)}" ];
          without = roots;
        }
        ++ lib.optional (sources != [ ]) {
          name = "sources";
          roots = sources;
        };
    in
    lib.foldl' (lower: args: lower ++ [ (layer (args // { inherit lower; })) ]) [ ] layers;

  # What somebody wants to have in a machine besides, with its closure.
  extras =
    roots:
    layer {
      name = "extras";
      lower = [ ];
      inherit roots;
    };
in
{
  inherit image extras;
}
