# The builder of a check of default.nix. The attributes are those of a run, whose recorder is called
# by hand, with the schedules that a search has found.
source "$NIX_ATTRS_SH_FILE"
export PATH=$path

cat "$search/report.txt"
if [ ! -e "$search/failing.json" ]; then
  echo "the search has found nothing"
  exit 1
fi
if ! grep -qE "^step [0-9+]+ decides it: thread [0-9]+ .* in .*$decides" "$search/report.txt"; then
  echo "that is not where it was to be found: $decides"
  exit 1
fi

for side in failing passing; do
  mkdir $side
  jq --arg dir "$PWD/$side" --slurpfile found "$search/$side.json" \
    '. + $found[0] | .outputs = { out: "\($dir)/out", nars: "\($dir)/nars" }' \
    "$NIX_ATTRS_JSON_FILE" > $side/attributes.json
  NIX_ATTRS_JSON_FILE=$PWD/$side/attributes.json "$recorder" record > $side/log
  cmp $side/out/trace "$search/$side.trace"
  python3 "$same" $side "$search/report.cbor" $side/out/manifest.cbor
done

# The comparison can fail.
if cmp -s {failing,passing}/out/trace; then
  echo "both runs are the same"
  exit 1
fi
mkdir "${outputs[out]}"
