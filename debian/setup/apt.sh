# A private apt: lists of its own, an empty dpkg status, and of the machine's settings only
# those on how to reach a mirror (proxies, certificates, passwords).

# papt COMMAND ARGS: run one of apt's commands on the private lists.
papt() { APT_CONFIG=$work/apt/conf "$@"; }

# configure_apt URI
configure_apt() {
    rm -rf "$work/apt"
    mkdir -p "$work"/apt/{lists/partial,cache/archives/partial,sources.d}
    : >"$work/apt/status"
    cat >"$work/apt/sources.d/suite.sources" <<-END
	Types: deb deb-src
	URIs: $1
	Suites: $suite
	Components: main
	Architectures: amd64
	Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
	END
    # This file is read before all others and says that there are no others: hooks that the
    # machine runs after an update are not for this one.
    {
        apt-config dump | grep '^Acquire::' || true
        cat <<-END
	Dir::Etc::main "/dev/null";
	Dir::Etc::parts "/dev/null";
	Dir::Etc::sourcelist "/dev/null";
	Dir::Etc::sourceparts "$work/apt/sources.d";
	Dir::Etc::preferences "/dev/null";
	Dir::Etc::preferencesparts "/dev/null";
	Dir::State "$work/apt";
	Dir::State::status "$work/apt/status";
	Dir::State::lists "$work/apt/lists";
	Dir::Cache "$work/apt/cache";
	APT::Architecture "amd64";
	APT::Architectures { "amd64"; };
	APT::Sandbox::User "root";
	APT::Update::Error-Mode "any";
	Acquire::Languages "none";
	Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
	Debug::NoLocking "true";
	END
    } >"$work/apt/conf"
}

# The machine's own mirrors of Debian. Before the machine's first update apt does not know which
# of its sources are Debian's: then all of them.
list_mirrors() {
    local known
    known=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' \
        2>/dev/null | sed -n 's/^Debian //p')
    [[ -n $known ]] ||
        known=$(apt-get --print-uris update 2>/dev/null | sed -n "s@^'\([^']*\)/dists/.*@\1/@p")
    awk '!/security|^cdrom:/ && !seen[$0]++' <<<"$known"
}

# Find a mirror that has the suite, and read its lists. Does nothing the second time.
apt_ready=
need_apt() {
    [[ -z $apt_ready ]] || return 0
    local mirror
    for mirror in $(list_mirrors); do
        configure_apt "$mirror"
        if papt apt-get -q update &>"$work/apt.log" && papt apt-cache show nix-bin &>/dev/null; then
            apt_ready=1
            return 0
        fi
    done
    fail "cannot set up the private Nix: none of this machine's apt sources gives Debian $suite" \
        "($(reason "$work/apt.log"))"
}

# reason LOG: why apt or pip did not get something. What was wrong they say when they try; their
# closing words are only that something was.
reason() {
    local reason=
    if [[ -s $1 ]]; then
        reason=$(sed -n "/^Err:/ { n; s/^ *//p; }; s/.*connection broken by '\(.*\)': .*/\1/p" "$1" |
            head -n1)
        [[ -n $reason ]] || reason=$(sed -n 's/^\(E\|W\|ERROR\): //p' "$1" | head -n1)
        [[ -n $reason ]] || reason=$(tail -n1 "$1")
    fi
    echo "${reason:-apt names no mirror}"
}

# index KIND: the text of the lists of a kind (Packages, Sources), however apt keeps them.
index() {
    local list file
    papt apt-get indextargets --format '$(FILENAME)' "Created-By: $1" | while read -r list; do
        for file in "$list" "$list".{lz4,xz,gz,zst}; do
            if [[ -e $file ]]; then
                /usr/lib/apt/apt-helper cat-file "$file"
                break
            fi
        done
    done
}
