"""``rewind gc`` and ``ls --roots``, in a store of their own."""

import pytest

from conftest import Session, needs_own_store


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
        # Others' runs are none of this: to delete many is slow in such a store.
        mkdir /nix/var/nix/gcroots/test
        for path in /nix/store/*-rewind-{run,search}-*; do
            case $path in
                *.drv | *.chroot | *.lock | *"$5"*) ;;
                *) ln -s "$path" /nix/var/nix/gcroots/test ;;
            esac
        done
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
        script,
        str(session.rewind_program),
        *(str(run.path) for run in (loose, linked, kept)),
        session.mark,
    )
    assert answer.status == 0, str(answer)
    lines = answer.out.splitlines()
    assert lines[1:4] == [f"gone {loose.path}", f"there {linked.path}", f"there {kept.path}"]
    assert any(line.startswith(kept.hash[:8]) for line in lines[4:]), str(answer)


@pytest.mark.parametrize("age", ["30", "d", "-1d", "1y"])
def test_an_age_that_is_none(session: Session, age: str) -> None:
    answer = session.rewind("gc", "--older-than", age)
    assert answer.status == 2 and "is no time" in answer.sentence, str(answer)
