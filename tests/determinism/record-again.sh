# The builder of determinism/default.nix. The attributes are those of a run, whose recorder is
# called by hand.
source "$NIX_ATTRS_SH_FILE"
export PATH=$path
attributes=$NIX_ATTRS_JSON_FILE

# record NAME [JQ-FILTER]: leaves NAME/out and NAME/nars
record() {
  mkdir "$1"
  jq --arg dir "$PWD/$1" "${2:-.} | .outputs = { out: \"\(\$dir)/out\", nars: \"\(\$dir)/nars\" }" \
    "$attributes" > "$1/attributes.json"
  if ! NIX_ATTRS_JSON_FILE=$PWD/$1/attributes.json "$recorder" record > "$1/log" 2>&1; then
    cat "$1/log"
    echo "recording $1 failed"
    exit 1
  fi
  rm "$1/attributes.json" "$1/log"
}

# same NAME: is it what the first recording was?
same() {
  diff -r first "$1" || { echo "$1: not the same as the first"; exit 1; }
  echo "$1: the same, $(stat -c %s "$1/out/trace") bytes of trace"
}

record first

record again
same again

# Both cores busy, and the disk.
busy=()
for _ in 1 2 3; do
  while :; do :; done &
  busy+=($!)
done
while :; do dd if=/dev/zero of=busy bs=1M count=64 conv=fsync status=none; done &
busy+=($!)
record loaded
kill "${busy[@]}"
wait "${busy[@]}" 2> /dev/null || true
rm -f busy
same loaded

# The host's clock 1,000 days ahead and twice as fast, for the recorder and for QEMU, which gets
# no environment from the recorder: a wrapper in its place sets it. The manifest names the
# settings, so it alone differs.
now=$(date +%s)
later=$(LD_PRELOAD=$clock date +%s)
((later - now > 900 * 86400)) || { echo "the clock did not shift"; exit 1; }
settings=$(jq -r .settings "$attributes")
printf '#!%s\nLD_PRELOAD=%s exec %s "$@"\n' "$builder" "$clock" "$(jq -r .qemu "$settings")" > qemu
chmod +x qemu
jq --arg qemu "$PWD/qemu" '.qemu = $qemu' "$settings" > settings.json
export LD_PRELOAD=$clock
record shifted ".settings = \"$PWD/settings.json\""
unset LD_PRELOAD
cmp -s {first,shifted}/out/manifest.cbor && { echo "the wrapper was not used"; exit 1; }
cp first/out/manifest.cbor shifted/out/manifest.cbor
same shifted

# From a cold boot instead of the boot snapshot.
[ "$(jq .snapshot "$attributes")" != null ]
record cold '.snapshot = null'
same cold

# And a comparison that can fail: another seed is another run.
record other '.seed = "other"'
if diff -rq first other > /dev/null; then
  echo "another seed gives the same run: the comparison sees nothing"
  exit 1
fi

# The job did something, and what it did was written down.
(($(stat -c %s first/out/trace) > 1000))

mkdir "${outputs[out]}"
cp first/out/trace "${outputs[out]}/"
