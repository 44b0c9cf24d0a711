#!/bin/bash
# tests/nixw.sh: ./nixw, as root on Debian. A line a test, and how many passed at the end.
#
# Uses the private Nix in REWIND_NIXW_STATE (or where nixw has it without that), sets it up if
# need be, and makes others beside it from the same downloads.
set -uo pipefail

repository=$(realpath "$(dirname "$0")/..")
nixw=$repository/nixw
state=${REWIND_NIXW_STATE:-${XDG_CACHE_HOME:-$HOME/.cache}/rewind-nixw}
export REWIND_NIXW=private REWIND_NIXW_STATE=$state

# What a surrounding nixw has set is none of theirs.
for variable in "${!NIX_@}"; do
    [[ $variable == NIX_SSL_CERT_FILE ]] || unset "$variable"
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0
failed=0

# check NAME FUNCTION: the function's output is shown if it fails
check() {
    local name=$1
    shift
    # (not in the `if` itself: there errexit is off)
    (set -e; "$@") >"$scratch/log" 2>&1
    # shellcheck disable=SC2181
    if (($? == 0)); then
        echo "ok   $name"
        passed=$((passed + 1))
    else
        echo "FAIL $name"
        sed 's/^/     /' "$scratch/log"
        failed=$((failed + 1))
    fi
}

# equal IS SHOULD
equal() {
    [[ $1 == "$2" ]] || {
        printf 'is:        %s\nshould be: %s\n' "$1" "$2"
        return 1
    }
}

# refuses PATTERN COMMAND…: exit status 2, and one line on stderr that has PATTERN in it
refuses() {
    local pattern=$1 status=0 message
    shift
    message=$("$@" 2>&1) || status=$?
    echo "$message"
    equal "$status" 2
    equal "$(wc -l <<<"$message")" 1
    [[ $message == "nixw: "*$pattern* ]]
}

###### An installed Nix

# fake_nix VERSION: a directory with a nix that says it is of that version (0.0: no flakes)
fake_nix() {
    local directory=$scratch/nix-$1
    mkdir -p "$directory"
    cat >"$directory/nix" <<END
#!/bin/bash
if [[ \$1 == eval && \$* == *getFlake* ]]; then
    echo "$1"
else
    printf '%s\n' "fake $1" "\$@" "NIX_CONFIG=\${NIX_CONFIG-}" "\${!NIX_CONF@}"
fi
END
    chmod +x "$directory/nix"
    echo "$directory"
}

# version NIX-VERSION: what nixw --version says with that nix on PATH
version() { REWIND_NIXW='' PATH=$(fake_nix "$1"):$PATH "$nixw" --version; }

takes_installed() {
    local out
    out=$(REWIND_NIXW='' NIX_CONFIG="a = b" PATH=$(fake_nix 2.18.1):$PATH "$nixw" build '.#a b' --x)
    equal "$out" "$(printf '%s\n' 'fake 2.18.1' build '.#a b' --x 'NIX_CONFIG=a = b' NIX_CONFIG)"
    [[ $(version 3.0.0) == "fake 3.0.0"* ]]
}
private_if_too_old() {
    [[ $(version 2.17.9) == "nix (Nix) "* ]]
    [[ $(version 2.3) == "nix (Nix) "* ]]
}
private_if_no_flakes() { [[ $(version 0.0) == "nix (Nix) "* ]]; }
private_if_asked() {
    local out
    out=$(PATH=$(fake_nix 2.30.0):$PATH "$nixw" --version)
    [[ $out == "nix (Nix) "* ]]
}

###### The private Nix

# cpu COMMAND…: microseconds of processor time that it takes on average, which other work on the
# machine does not lengthen as it does the time that passes
cpu() {
    local i seconds TIMEFORMAT='%3U %3S'
    seconds=$({ time for i in {1..20}; do "$@" >/dev/null; done; } 2>&1)
    awk '{ printf "%d", ($1 + $2) * 1000000 / 20 }' <<<"$seconds"
}
second_call_is_cheap() {
    local with without
    equal "$("$nixw" --version 2>&1 | wc -l)" 1
    with=$(cpu "$nixw" --version)
    without=$(NIX_CONF_DIR=$state/nix/etc cpu "$state/nix/bin/nix" --version)
    echo "nixw: $with us, nix: $without us"
    ((with - without < 50000))
}

# A flake whose nixpkgs cannot be had, and an app that starts nix itself.
make_flake() {
    mkdir -p "$scratch/flake"
    cat >"$scratch/flake/flake.nix" <<'END'
{
  inputs.nixpkgs.url = "github:there-is-no/such-repository";
  outputs =
    { self, nixpkgs }:
    let
      pkgs = nixpkgs.legacyPackages.x86_64-linux;
    in
    {
      word = "from ${pkgs.lib.getName pkgs.hello}";
      packages.x86_64-linux.default = pkgs.writeShellScriptBin "app" ''
        nix eval --raw ${self}#word
        nix --extra-experimental-features "" --option cores 1 eval --raw ${self}#word
      '';
    };
}
END
}
override_reaches_child() {
    make_flake
    equal "$("$nixw" run "path:$scratch/flake")" "from hellofrom hello"
    # … also one with an environment of its own
    equal "$(env -i HOME="$scratch" "$state/bin/nix" eval --raw "path:$scratch/flake#word")" "from hello"
    # in the flake's directory, without naming it
    (cd "$scratch/flake" && "$nixw" build --no-link && "$nixw" flake metadata >/dev/null)
    [[ ! -e $scratch/flake/flake.lock ]]
}
no_warning_without_nixpkgs() {
    mkdir -p "$scratch/plain/sub"
    echo '{ outputs = _: { a = 1; }; }' >"$scratch/plain/flake.nix"
    equal "$(cd "$scratch/plain/sub" && "$nixw" eval "path:..#a" 2>&1)" 1
    equal "$("$nixw" eval "path:$scratch/plain#a" 2>&1)" 1
}
# With a flake.lock that Nix would have to write anew there is no warning either, and it stays.
no_warning_with_lock() {
    local flake=$scratch/locked
    make_flake
    mkdir -p "$flake/sub"
    cp "$scratch/flake/flake.nix" "$flake/"
    cat >"$flake/flake.lock" <<'END'
{
  "nodes": {
    "nixpkgs": {
      "locked": {
        "lastModified": 1,
        "narHash": "sha256-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "owner": "there-is-no",
        "repo": "such-repository",
        "rev": "0000000000000000000000000000000000000000",
        "type": "github"
      },
      "original": {
        "owner": "there-is-no",
        "repo": "such-repository",
        "type": "github"
      }
    },
    "root": {
      "inputs": {
        "nixpkgs": "nixpkgs"
      }
    }
  },
  "root": "root",
  "version": 7
}
END
    cp "$flake/flake.lock" "$scratch/before"
    equal "$("$nixw" eval --raw "path:$flake#word" 2>&1)" "from hello"
    equal "$(cd "$flake/sub" && "$nixw" eval --raw "path:..#word" 2>&1)" "from hello"
    equal "$(cd "$flake" && "$nixw" run . -- 2>/dev/null)" "from hellofrom hello"
    cmp "$flake/flake.lock" "$scratch/before"
    # two flakes: each has a lock of its own
    "$nixw" build --no-link "path:$flake" "path:$scratch/flake"
}
others_are_untouched() {
    equal "$("$nixw" hash convert --hash-algo md5 --to base16 d41d8cd98f00b204e9800998ecf8427e)" \
        d41d8cd98f00b204e9800998ecf8427e
    [[ $("$nixw" store info 2>&1) == *"Store URL: local"* ]]
    [[ $("$state/bin/nix-store" --version) == "nix-store "* ]]
}
# The wrapper's list of commands against Nix's own.
list_of_commands() {
    local command takes
    "$nixw" __dump-cli >"$scratch/cli.json"
    eval "$(sed -n '/^takes_override() {/,/^}/p' "$repository/debian/setup/wrapper")"
    "$nixw" eval --impure --raw --expr "
        with builtins;
        let
          walk = name: c:
            if c.commands or { } != { } then
              concatStringsSep \"\" (map (n: walk (if name == \"\" then n else \"\${name} \${n}\") c.commands.\${n}) (attrNames c.commands))
            else
              \"\${if c.flags ? override-input then \"takes\" else \"does-not\"} \${name}\n\";
        in
        walk \"\" (fromJSON (readFile \"$scratch/cli.json\")).args" >"$scratch/commands"
    (($(wc -l <"$scratch/commands") > 60))
    while read -r takes command; do
        case $command in
            # these write flake.lock
            'flake lock' | 'flake update') takes=does-not ;;
        esac
        if takes_override "$command"; then equal "$command takes" "$command $takes"; else
            equal "$command does-not" "$command $takes"
        fi
    done <"$scratch/commands"
}
nothing_leaks_in() {
    mkdir -p "$scratch/home/.config/nix"
    echo 'cores = 77' >"$scratch/home/.config/nix/nix.conf"
    local config
    config=$(HOME=$scratch/home NIX_CONFIG='max-jobs = 55' NIX_REMOTE=daemon "$nixw" config show)
    if grep -E '^(cores = 77|max-jobs = 55)$' <<<"$config"; then return 1; fi
    grep -x 'sandbox = true' <<<"$config"
    grep -x 'sandbox-fallback = false' <<<"$config"
    grep -x 'substituters = ' <<<"$config"
    grep -x 'use-registries = false' <<<"$config"
    # what a test or a user gives a child nix does count
    NIX_CONFIG='max-jobs = 55' "$state/bin/nix" config show | grep -x 'max-jobs = 55'
}

###### Set-up

# The state of a machine that has most of the packages: DIRECTORY, less what needs fetching
prepare() {
    rm -rf "$1"
    mkdir -p "$1"
    cp -r "$state/versions" "$1/"
    # a few packages have to be fetched
    grep -v -e '-bc.deb' -e '-jq.deb' -e '-which' -e '-rsync.deb' -e '.whl$' "$state/stored" >"$1/stored"
}
works_in() { equal "$(REWIND_NIXW_STATE=$1 "$nixw" eval --expr '1 + 1')" 2; }

interrupted() {
    local other=$scratch/interrupted i pid
    prepare "$other"
    for i in {1..5}; do
        REWIND_NIXW_STATE=$other setsid "$nixw" --version &
        pid=$!
        sleep "$((RANDOM % 2)).$((RANDOM % 1000 + 1000))"
        # all of it at once; or only nixw and set-up, while what they started goes on
        if ((i % 2)); then kill -9 -- "-$pid"; else kill -9 "$pid" "$(pgrep -P "$pid" | head -n1)"; fi || true
        wait "$pid" || true
        [[ ! -e $other/stamp ]] || prepare "$other"
    done
    REWIND_NIXW_STATE=$other "$nixw" --version
    works_in "$other"
    [[ ! -e $other/work && ! -e $other/cache && ! -e $other/partial ]]
}
both_at_once() {
    local other=$scratch/both first second
    prepare "$other"
    REWIND_NIXW_STATE=$other "$nixw" --version >"$scratch/first" 2>&1 &
    first=$!
    REWIND_NIXW_STATE=$other "$nixw" --version >"$scratch/second" 2>&1 &
    second=$!
    wait "$first"
    wait "$second"
    cat "$scratch/first" "$scratch/second"
    equal "$(cat "$scratch/first" "$scratch/second" | grep -c '^nix (Nix)')" 2
    equal "$(cat "$scratch/first" "$scratch/second" | grep -c '^nixw: done')" 1
    works_in "$other"
}
strange_directory() {
    local other="$scratch/a \$b'c & d"
    prepare "$other"
    REWIND_NIXW_STATE=$other "$nixw" --version
    works_in "$other"
    make_flake
    equal "$(REWIND_NIXW_STATE=$other "$nixw" eval --raw "path:$scratch/flake#word")" "from hello"
}
no_network() {
    REWIND_NIXW_STATE=$scratch/none refuses "cannot set up the private Nix" unshare -n "$nixw" --version
    equal "$(ls "$scratch/none")" lock
}
settings_of_apt_count() {
    echo 'Acquire::http::Proxy "http://127.0.0.1:9"; Acquire::https::Proxy "http://127.0.0.1:9";' >"$scratch/apt.conf"
    APT_CONFIG=$scratch/apt.conf REWIND_NIXW_STATE=$scratch/proxy refuses 127.0.0.1:9 unshare -n "$nixw" --version
}
not_root() {
    # (a copy, as the checkout may be in a directory of root's alone)
    chmod 755 "$scratch"
    cp "$nixw" "$scratch/nixw"
    REWIND_NIXW_STATE=/nonexistent refuses "needs root" \
        setpriv --reuid=65534 --regid=65534 --clear-groups "$scratch/nixw" --version
}
not_amd64() {
    mkdir -p "$scratch/arm"
    printf '#!/bin/sh\necho arm64\n' >"$scratch/arm/dpkg"
    chmod +x "$scratch/arm/dpkg"
    REWIND_NIXW_STATE=$scratch/none PATH=$scratch/arm:$PATH refuses "this is arm64" "$nixw" --version
}
not_debian() {
    printf 'ID=fedora\nVERSION_ID=43\n' >"$scratch/os-release"
    # shellcheck disable=SC2016 # for the inner shell
    REWIND_NIXW_STATE=$scratch/none refuses "this is fedora 43" unshare -m sh -c \
        'mount --bind "$1" "$(realpath /etc/os-release)" && exec "$2" --version' sh "$scratch/os-release" "$nixw"
}

"$nixw" --version >/dev/null || exit
check "an installed Nix is run as it is" takes_installed
check "one before 2.18 is not" private_if_too_old
check "nor one without flakes" private_if_no_flakes
check "nor any with REWIND_NIXW=private" private_if_asked
check "a second call adds less than 50 ms and says nothing" second_call_is_cheap
check "nixpkgs is overridden, also for a nix that a program starts" override_reaches_child
check "a flake without nixpkgs gives no warning" no_warning_without_nixpkgs
check "nor does a flake.lock that names another nixpkgs" no_warning_with_lock
check "commands that take no flake are left alone" others_are_untouched
check "the list of commands is Nix's" list_of_commands
check "no other configuration of Nix counts" nothing_leaks_in
check "two at once" both_at_once
check "killed at any moment, the next call goes on" interrupted
check "a directory with odd characters" strange_directory
check "no network" no_network
check "apt's proxy settings count" settings_of_apt_count
check "not root" not_root
check "not amd64" not_amd64
check "not Debian" not_debian
echo "$passed passed, $failed failed"
((failed == 0))
