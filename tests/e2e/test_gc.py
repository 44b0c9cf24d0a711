"""``rewind gc`` and ``ls --roots``, in a store of their own."""

from pathlib import Path

import pytest

from conftest import Recorded, Session, needs_own_store

# Others' runs are none of this: to delete many is slow in such a store. $1 is in whose names they
# are not.
_KEEP_OTHERS = r"""
    keep_others() {
        mkdir /nix/var/nix/gcroots/test
        for path in /nix/store/*-rewind-{run,search}-*; do
            case $path in
                *.drv | *.chroot | *.lock | *"$1"*) ;;
                *) ln -s "$path" /nix/var/nix/gcroots/test ;;
            esac
        done
    }
"""


@needs_own_store
def test_what_nothing_keeps_goes(session: Session) -> None:
    """Not what is kept for the user, nor what a link of nix build keeps."""
    kept = session.recorded(session.job("bare"))
    loose = session.recorded(session.job("bare"), "--name", f"loose-{session.mark}")
    linked = session.recorded(session.job("bare"), "--name", f"linked-{session.mark}")
    for run in (loose, linked):
        for link in session.roots.glob(f"{run.path.name}*"):
            link.unlink()
    script = r"""
        keep_others "$5"
        nix-store --realise "$3" --add-root "$0/result" > /dev/null
        "$1" gc --dry-run --json > "$0/dry"
        grep -q "$2" "$0/dry"
        test -e "$2"
        "$1" gc > "$0/out"
        grep "removed; 0 links older than 30 days" "$0/out"
        for path in "$2" "$3" "$4"; do
            test -e "$path" && echo "there $path" || echo "gone $path"
        done
        "$1" ls --roots
    """
    answer = session.alone(
        _KEEP_OTHERS + script,
        str(session.rewind_program),
        *(str(run.path) for run in (loose, linked, kept)),
        session.mark,
    )
    assert answer.status == 0, str(answer)
    lines = answer.out.splitlines()
    assert lines[1:4] == [f"gone {loose.path}", f"there {linked.path}", f"there {kept.path}"]
    assert any(line.startswith(kept.hash[:8]) for line in lines[4:]), str(answer)


@needs_own_store
def test_an_imported_run_goes_when_nobody_uses_it(
    session: Session, bank: Recorded, tmp_path: Path
) -> None:
    file = tmp_path / "bank.rwd"
    assert session.rewind("export", bank.hash, "--no-places", "-o", str(file)).status == 0
    script = r"""
        rewind=$1 run=${2##*/}
        keep_others /none/
        nix-store --delete --ignore-liveness "$2" > /dev/null 2>&1
        export XDG_STATE_HOME=$0/state XDG_CACHE_HOME=$0/cache
        mkdir "$0/state"
        "$rewind" import "$3" > /dev/null
        directory=$0/state/rewind/imported/$run
        "$rewind" ls --roots
        # Nobody has looked at it, but for one who is in the middle of it.
        mkfifo "$0/pipe"
        "$rewind" events "${run%%-*}" > "$0/pipe" &
        exec 3< "$0/pipe"
        head -c 1 <&3 > /dev/null
        touch -d "31 days ago" "$directory"
        "$rewind" gc --dry-run
        "$rewind" gc > /dev/null
        test -e "$directory/trace" && echo "in use"
        cat <&3 > /dev/null
        wait
        # To have looked at it keeps it.
        "$rewind" log "${run%%-*}" > /dev/null
        "$rewind" gc --json | grep '"paths"'
        touch -d "31 days ago" "$directory"
        "$rewind" gc
        ls -A "$0/state/rewind/imported"
        "$rewind" log "${run%%-*}" 2>&1 || echo "status $?"
    """
    answer = session.alone(
        _KEEP_OTHERS + script, str(session.rewind_program), str(bank.path), str(file)
    )
    assert answer.status == 0, str(answer)
    lines = answer.out.splitlines()
    short = bank.hash[:8]
    assert any(line.startswith(short) and bank.name in line for line in lines[:3]), str(answer)
    directory = next(line for line in lines if line.endswith(bank.path.name))
    assert "/state/rewind/imported/" in directory
    rest = lines[lines.index(directory) + 1 :]
    assert rest[0].startswith("1 path, ") and "would be removed" in rest[0], str(answer)
    assert rest[1:3] == ["in use", '  "paths": [],'], str(answer)
    assert rest[3] == directory
    assert rest[4].startswith("1 path, ") and "and 0 bytes of keyframes removed" in rest[4], str(answer)
    assert rest[5] == "lock"
    assert f"there is no run of the hash or name {bank.hash}" in rest[6]
    assert rest[7:] == ["status 2"]


@pytest.mark.parametrize("age", ["30", "d", "-1d", "1y"])
def test_an_age_that_is_none(session: Session, age: str) -> None:
    answer = session.rewind("gc", "--older-than", age)
    assert answer.status == 2 and "is no time" in answer.sentence, str(answer)
