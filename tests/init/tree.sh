# A store path with what a NAR can hold, and names in all orders.
mkdir -p "$out"/{dir/{sub,empty},a,b,a-b,a.b,A,Z} "$out"/$'with\nline feed' "$out/with space"
touch "$out"/{empty,.hidden,-dash,~tilde,'#hash','*star',a/x,a-b/x,a.b/x}
printf x > "$out"/$'not-utf8-\xff\xfe'
printf x > "$out"/ünïcode
printf x > "$out/$(printf 'n%.0s' {1..255})"
printf '#!/bin/sh\n' > "$out/executable"
chmod +x "$out/executable"
for size in 1 7 8 9 4095 4096 65535 65536 65537 200000 10000000; do
  head -c $size /dev/zero | tr '\0' x > "$out/dir/$size"
done
ln -s executable "$out/link"
ln -s /nowhere/at/all "$out/dangling"
ln -s "$(printf 't%.0s' {1..4000})" "$out/long-link"
ln "$out/executable" "$out/dir/hard-link"
