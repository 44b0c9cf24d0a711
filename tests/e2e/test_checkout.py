"""A clone of the checkout: the two commands of the README, and what a change rebuilds."""

import json
import sys
from pathlib import Path

import pytest

from conftest import Recorded, Session


@pytest.fixture(scope="module")
def clone(session: Session) -> Path:
    """What a person gets who clones this checkout, with its changes that git sees."""
    place = session.directory / "clone"
    place.mkdir()
    # `nix flake metadata` has made a copy of what git sees; a real clone would have to be of a
    # commit, and would not have what is being worked on.
    source = json.loads(session.nix("flake", "metadata", "--json", str(session.checkout)))["path"]
    script = r"""
        set -e
        cp -r "$1/." .
        chmod -R u+w .
        git init --quiet
        git add --all --force
        git -c user.name=test -c user.email=test commit --quiet --message=all
        git clone --quiet . ../cloned
    """
    answer = session.run("bash", "-c", script, "bash", source, cwd=place)
    assert answer.status == 0, str(answer)
    return session.directory / "cloned"


def test_two_commands_record_bank_in_a_fresh_clone(
    session: Session, clone: Path, bank: Recorded
) -> None:
    answer = session.run("./nixw", "run", ".#rewind", "--", "nix", ".#bank", cwd=clone)
    assert answer.status == 0, str(answer)
    assert "bank-0.1.0" in answer.out.splitlines()[0], str(answer)
    assert "exited 0" in answer.out, str(answer)
    # As the checkout and the flake name it.
    path = session.nix("eval", "--raw", f"{session.jobs}#runs.bank.outPath")
    assert answer.out.split()[0] == Path(path).name[:32]
    shown = session.run("./nixw", "run", ".#rewind", "--", "events", path, "--to", "9", cwd=clone)
    assert shown.status == 0, str(shown)
    assert shown.out.split()[0] == "0", str(shown)


def test_a_change_of_the_command_line_changes_no_run(session: Session, clone: Path) -> None:
    parts = ("kernel", "qemu", "init", "recorder", "machine")

    def names() -> dict[str, str]:
        found = {part: session.nix("eval", "--raw", f"{clone}#{part}.drvPath") for part in parts}
        run = f"{session.jobs}#runs.bank.drvPath"
        flake = f"git+file://{clone}"
        return found | {
            "run": session.nix("eval", "--raw", run, "--override-input", "rewind", flake)
        }

    def command_line() -> str:
        return session.nix("eval", "--raw", f"{clone}#rewind.drvPath")

    before, program = names(), command_line()
    with (clone / "python" / "rewind" / "cli" / "output.py").open("a") as file:
        file.write("# a change\n")
    assert names() == before
    assert command_line() != program
    # The same by way of the command line: it names runs by the source it carries.
    changed = session.nix("eval", "--raw", f"{clone}#rewind.source")
    assert changed == session.nix("eval", "--raw", f"{session.checkout}#rewind.source")


def test_a_change_of_the_recorder_rebuilds_neither_kernel_nor_qemu(
    session: Session, clone: Path
) -> None:
    parts = ("kernel", "qemu", "init")
    names = [session.nix("eval", "--raw", f"{clone}#{part}.drvPath") for part in parts]
    recorder = session.nix("eval", "--raw", f"{clone}#recorder.drvPath")
    with (clone / "python" / "rewind" / "recorder" / "streams.py").open("a") as file:
        file.write("# a change\n")
    assert [session.nix("eval", "--raw", f"{clone}#{part}.drvPath") for part in parts] == names
    assert session.nix("eval", "--raw", f"{clone}#recorder.drvPath") != recorder


def test_the_transcripts_are_what_the_commands_print(session: Session, bank: Recorded) -> None:
    """Where bank's run is another than in README.md, as it is with every other nixpkgs or version
    of Debian's packages, so is much of what is printed; then it is enough that all of it works.
    """
    path = f"{session.rewind_program.parent}:{session.environment()['PATH']}"
    answer = session.run(
        sys.executable, "docs/transcripts.py", "--check", cwd=session.checkout, PATH=path
    )
    run = Path(session.nix("eval", "--raw", f"{session.jobs}#runs.bank.outPath")).name[:32]
    same = run in (session.checkout / "README.md").read_text()
    assert answer.status == (0 if same else 1), str(answer)
