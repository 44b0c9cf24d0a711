# The private Nix: Debian's, with its libraries and a libc of its own beside it, so that it
# neither needs nor touches the machine's.

# debs_of SET: PACKAGE VERSION SHA256 FILE of the packages of a set
debs_of() {
    awk -v set="$1" '
        NR == FNR { if ($1 == set) for (n = split($3, p, ","); n > 0; n--) wanted[p[n]]; next }
        $1 in wanted' "$versions"/{sets,debs}
}

# unpack_set SET: into $unpacked, from the cache or from the store
unpack_set() {
    local name version sha256 file
    unpacked=$work/unpacked/$1
    [[ ! -d $unpacked ]] || return 0
    mkdir -p "$unpacked"
    while read -r name version sha256 file; do
        if [[ -e $cache/$file ]]; then
            file=$cache/$file
        else
            file=$(sed -n "s/^$sha256 //p" "$state/stored")
        fi
        dpkg-deb -x "$file" "$unpacked"
    done < <(debs_of "$1")
}

# run_unpacked PROGRAM ARGS: with the libc and libraries of $unpacked
run_unpacked() {
    local libraries=$unpacked/usr/lib/x86_64-linux-gnu
    "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$@"
}

make_nix() {
    local key
    key=$(sha256sum < <(echo "$state"; cat "$debian/setup/nix.sh"; debs_of nix))
    if [[ ! -e $state/nix/key || $(<"$state/nix/key") != "$key" ]]; then
        say "making the private Nix"
        relocate_nix "$work/nix"
        echo "$key" >"$work/nix/key"
        rm -rf "$state/nix"
        mv "$work/nix" "$state/nix"
    fi
    configure_nix
}

# relocate_nix DIR: what will work once DIR is STATE/nix
relocate_nix() {
    local new=$1 root name file
    unpack_set nix
    root=$unpacked
    mkdir -p "$new"/{bin,lib,etc}
    cp "$root/usr/bin/nix" "$new/bin/"
    for name in build channel collect-garbage copy-closure daemon env hash instantiate \
        prefetch-url shell store; do
        ln -s nix "$new/bin/nix-$name"
    done
    run_unpacked --list "$root/usr/bin/nix" |
        sed -n 's@^[[:space:]]*\([^/ ]*\) => \(.*\) (0x.*@\1 \2@p' |
        while read -r name file; do
            install -m644 "$file" "$new/lib/$name"
        done
    find "$root" -name 'libnss_*.so.2' -exec install -m644 {} "$new/lib/" \;
    install -m755 "$root/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" "$new/lib/"
    for file in "$new"/lib/lib*.so*; do
        [[ $file == */libc.so.6 ]] ||
            run_unpacked "$root/usr/bin/patchelf" --force-rpath --set-rpath '$ORIGIN' "$file"
    done
    # The rpath first: patchelf 0.18 damages programs with a fixed address the other way round.
    run_unpacked "$root/usr/bin/patchelf" --force-rpath --set-rpath '$ORIGIN/../lib' "$new/bin/nix"
    run_unpacked "$root/usr/bin/patchelf" \
        --set-interpreter "$state/nix/lib/ld-linux-x86-64.so.2" "$new/bin/nix"
}

# run_nix PROGRAM ARGS: of the private Nix, with nothing of the machine's Nix configuration
run_nix() {
    (
        unset ${!NIX_*}
        export NIX_CONF_DIR=$state/nix/etc NIX_USER_CONF_FILES=
        exec "$state/nix/bin/$1" "${@:2}"
    )
}

configure_nix() {
    cat >"$work/nix.conf" <<-END
	experimental-features = nix-command flakes
	sandbox = true
	sandbox-fallback = false
	build-users-group =
	substituters =
	use-registries = false
	max-jobs = auto
	keep-outputs = true
	warn-dirty = false
	END
    mv "$work/nix.conf" "$state/nix/etc/nix.conf"
}
