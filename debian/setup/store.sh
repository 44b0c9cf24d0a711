# What goes into the store: the files, what the first builds need, and the stand-in's flake.

# add KIND ARGS…: add files or trees to the store, print their paths in order
add_flat() { run_nix nix-store --add-fixed sha256 "$@"; }
add_tree() { run_nix nix-store --add-fixed --recursive sha256 "$@"; }

# store_name FILE: the name its store path has. That of a .deb leaves out the version, which
# the lock has, and so a package's path changes only with its contents. A source tarball gets
# upstream's name.
store_name() {
    case $1 in
        *.deb) echo "${1%%_*}.deb" ;;
        *.orig.tar.*) sed 's/^\(.*\)_\(.*\)\.orig\.\(.*\)$/\1-\2.\3/' <<<"$1" ;;
        *) echo "$1" ;;
    esac
}

preload() {
    local sha256 file
    say "putting packages into the store"
    mkdir "$work/add"
    : >"$work/stored"
    [[ ! -e $state/stored ]] || cp "$state/stored" "$work/stored"
    local files=()
    while read -r sha256 file; do
        [[ -e $cache/$file ]] || continue
        ln "$cache/$file" "$work/add/$(store_name "$file")"
        files+=("$work/add/$(store_name "$file")")
        echo "$sha256" >>"$work/added"
    done < <(wanted_files)
    if ((${#files[@]})); then
        add_flat "${files[@]}" | paste -d' ' "$work/added" - >>"$work/stored"
        mv "$work/stored" "$state/stored"
    fi
    # only what is wanted now, each once
    awk 'NR == FNR { path[$1] = $2; next } { print $1, path[$1] }' \
        "$state/stored" <(wanted_files) >"$work/stored"
    mv "$work/stored" "$state/stored"
    make_seed
}

# Two trees that Nix expressions cannot make, as nothing could run their builders yet: busybox
# and patchelf with its libraries, to unpack packages with; and /bin/sh of every sandbox.
make_seed() {
    local tree name root
    unpack_set seed
    root=$unpacked
    tree=$work/add/debian-seed
    mkdir -p "$tree/lib"
    install -m755 "$root/usr/bin/busybox" "$root/usr/bin/patchelf" "$tree/"
    for name in ld-linux-x86-64.so.2 libc.so.6 libm.so.6 libgcc_s.so.1 libstdc++.so.6; do
        install -m755 "$root/usr/lib/x86_64-linux-gnu/$name" "$tree/lib/$name"
    done
    seed=$(add_tree "$tree")
    tree=$work/add/busybox-sandbox-shell
    mkdir -p "$tree/bin"
    only_shell "$root/usr/bin/busybox" "$tree/bin/busybox"
    sandbox_shell=$(add_tree "$tree")
    sed -i "/^sandbox-paths/d" "$state/nix/etc/nix.conf"
    echo "sandbox-paths = /bin/sh=$sandbox_shell/bin/busybox" >>"$state/nix/etc/nix.conf"
}

# only_shell IN OUT: busybox that is a shell and nothing else, as nixpkgs' sandbox shell is.
#
# Debian's runs its own applets before it looks at PATH: in a script for /bin/sh, `ar` would be
# busybox's, which cannot make archives. So the applets lose their names: in the binary's table,
# where strings end with NUL, the last letter becomes one that occurs in no name. busybox finds
# the place to search from by the names' order; that must stay right around those that are kept.
only_shell() {
    sed -z '/^\[\[$/,/^zcat$/ {
        /^\(ash\|busybox\|sh\)$/ b
        /^\(s[i-z]\|[t-z]\)/ { s/.$/\x7f/; b }
        s/.$/\x01/
    }' "$1" >"$2"
    chmod 755 "$2"
    local shell
    for shell in sh ash; do
        [[ $("$2" "$shell" -c 'echo works; PATH=; ls' 2>/dev/null) == works ]] ||
            fail "this version of busybox cannot be made a shell alone"
    done
}

# lock.json: what the Nix expressions know of the packages
make_lock_json() {
    awk -v sandbox_shell="$(run_nix nix-store -q --hash "$sandbox_shell")" \
        -v seed="$(run_nix nix-store -q --hash "$seed")" '
        function quote(list) { gsub(/,/, "\", \"", list); return "\"" list "\"" }
        function section(name) {
            printf "%s  \"%s\": {", (sections++ ? "\n  },\n" : "{\n"), name
            entries = 0
        }
        function entry(name) { printf "%s\n    \"%s\": ", (entries++ ? "," : ""), name }
        FNR == 1 { file = FILENAME; sub(/.*\//, "", file); section(file) }
        file == "sets" {
            entry($1)
            printf "{ \"roots\": [%s], \"debs\": [%s] }", quote($2), quote($3)
        }
        file == "debs" { entry($1); printf "{ \"version\": \"%s\", \"sha256\": \"%s\" }", $2, $3 }
        file == "sources" {
            entry($1 "." $2)
            printf "{ \"version\": \"%s\", \"sha256\": \"%s\", \"name\": \"%s\" }", $3, $4, $6
        }
        END {
            section("trees")
            entry("busybox-sandbox-shell"); printf "\"%s\"", sandbox_shell
            entry("debian-seed"); printf "\"%s\"", seed
            print "\n  }\n}"
        }' "$versions/sets" "$versions/debs" "$work/sources"
}

make_flake() {
    local flake path
    flake=$work/source
    cp -r "$debian" "$flake"
    rm -rf "$flake/setup"
    while read -r line; do
        echo "$line $(store_name "${line##* }")"
    done <"$versions/sources" >"$work/sources"
    make_lock_json >"$flake/lock.json"
    path=$(run_nix nix store add --name source "$flake")
    root_all "$path"
    ln -sfn "$path" "$state/nixpkgs"
}

# root_all PATH: keep it, and all else that set-up made, from being collected as garbage: none of
# it could be built again. STATE/root is a link to one store path that refers to them all, and
# a root for as long as STATE is there.
root_all() {
    {
        awk '{ print $2 }' "$state/stored"
        printf '%s\n' "$sandbox_shell" "$seed" "$1"
    } >"$work/paths"
    local all
    all=$(run_nix nix eval --impure --raw --expr '
        with builtins;
        toFile "rewind-nixw-packages" (
          concatStringsSep "\n" (map storePath (filter (s: isString s && s != "") (
            split "\n" (readFile '"$(nix_string "$work/paths")"')))))')
    run_nix nix-store --realise "$all" --add-root "$state/root" >/dev/null
}

# nix_string TEXT: as a string literal of the Nix language
nix_string() { printf '"%s"' "$(sed 's/[\\"$]/\\&/g' <<<"$1")"; }

# STATE/bin: nix and its old names, each the same small program
make_commands() {
    local new=$work/bin name path hash
    mkdir "$new"
    path=$(realpath "$state/nixpkgs")
    hash=$(run_nix nix hash convert --to sri "$(run_nix nix-store -q --hash "$path")")
    {
        echo '#!/bin/bash'
        printf 'state=%q\nnixpkgs=%q\nnixpkgs_hash=%q\n' "$state" "$path" "$hash"
        cat "$debian/setup/wrapper"
    } >"$new/nix"
    chmod 755 "$new/nix"
    for name in "$state"/nix/bin/nix-*; do
        ln -s nix "$new/${name##*/}"
    done
    rm -rf "$state/bin" "$state/locks"
    mv "$new" "$state/bin"
}
