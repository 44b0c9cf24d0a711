# Bring into STATE/cache what is neither there nor in the store yet.
#
# Downloads go to STATE/partial. A file gets from there into the cache only if its hash is
# right, so that what an interrupted set-up left behind is used as far as it is whole.

partial=$state/partial

# wanted_files: SHA256 FILE of all that the stand-in is made of
wanted_files() {
    awk '{ print $(NF - 1), $NF }' "$versions"/{debs,sources}
    pypi_files
}

# pypi_files: SHA256 FILE. debian/pypi.txt is in pip's format, the file's name is a comment.
pypi_files() { sed -n 's/.*--hash=sha256:\([0-9a-f]*\) *# *\(.*\)/\1 \2/p' "$debian/pypi.txt"; }

# missing: SHA256 FILE of what is still to be had
missing() {
    local sha256 file path
    declare -A stored
    if [[ -e $state/stored ]]; then
        while read -r sha256 path; do
            [[ ! -e $path ]] || stored[$sha256]=1
        done <"$state/stored"
    fi
    wanted_files | while read -r sha256 file; do
        [[ -e $cache/$file || -n ${stored[$sha256]:-} ]] || echo "$sha256 $file"
    done
}

# Move whole files from STATE/partial into the cache.
adopt() {
    local sha256 file
    while read -r sha256 file; do
        [[ -e $partial/$file ]] || continue
        if sha256sum --status -c - <<<"$sha256  $partial/$file"; then
            mv "$partial/$file" "$cache/"
        else
            rm "$partial/$file"
        fi
    done < <(missing)
}

# of_missing TABLE: its lines whose file is missing
of_missing() { awk 'NR == FNR { missing[$2]; next } $NF in missing' "$work/missing" "$1"; }

fetch_debs() {
    local -a packages
    mapfile -t packages < <(of_missing "$versions/debs" | awk '{ print $1 "=" $2 }')
    ((${#packages[@]})) || return 0
    papt apt-get -q download "${packages[@]}"
}

fetch_sources() {
    local name part version rest failed=0
    while read -r name part version rest; do
        case $part in
            orig) part=--tar-only ;;
            debian) part=--diff-only ;;
        esac
        papt apt-get -q source --download-only "$part" "$name=$version" || failed=1
    done < <(of_missing "$versions/sources")
    return $failed
}

# try_fetch: 1 if something is missing afterwards
try_fetch() {
    : >"$work/fetch.log"
    adopt
    missing >"$work/missing"
    if grep -q -v '\.whl$' "$work/missing"; then
        need_apt
        say "fetching $(wc -l <"$work/missing") files"
        (cd "$partial" && fetch_debs; fetch_sources) &>"$work/fetch.log" || true
        adopt
        missing >"$work/missing"
        # pip is run from packages: they have to be here first
        ! grep -q -v '\.whl$' "$work/missing" || return 1
    fi
    if [[ -s $work/missing ]]; then
        fetch_pypi &>"$work/fetch.log" || true
        adopt
        missing >"$work/missing"
    fi
    [[ ! -s $work/missing ]]
}

fetch_all() {
    mkdir -p "$partial"
    if ! try_fetch && grep -q -v '\.whl$' "$work/missing"; then
        say "the mirror no longer has some of the versions used so far: taking those it has"
        renew_versions
        try_fetch || true
    fi
    if [[ -s $work/missing ]]; then
        local file
        file=$(awk '{ print $2; exit }' "$work/missing")
        fail "cannot fetch $file ($(reason "$work/fetch.log"))"
    fi
    rm -rf "$partial"
}

# Debian's pip with Debian's Python, run in place, with the machine's own pip configuration.
fetch_pypi() {
    unpack_set pip
    local root=$unpacked certificates=/etc/ssl/certs/ca-certificates.crt
    if [[ ! -e $certificates ]]; then
        # A minimal Debian has none, and Debian's pip does not even start then.
        export CERTIFICATES=$work/certificates
        cat "$root"/usr/share/ca-certificates/mozilla/*.crt >"$CERTIFICATES"
        grep -rl --include='*.py' "$certificates" "$root/usr/lib/python3/dist-packages/pip" |
            xargs -d '\n' sed -i "s@[\"']$certificates[\"']@__import__('os').environ['CERTIFICATES']@"
    fi
    PYTHONHOME=$root/usr run_unpacked "$root/usr/bin/python3" -m pip download --quiet \
        --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
        -r "$debian/pypi.txt" -d "$partial"
}
