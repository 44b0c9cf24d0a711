"""``rewind nix`` records builds, and what it makes is the run that Nix names."""

import functools
import http.server
import json
import re
import shlex
import threading
import time
from collections.abc import Iterator

import pytest

from conftest import Recorded, Session, needs_own_store

HASH = re.compile(r"[0-9a-df-np-sv-z]{32}")
OPTIONS = {
    "--epoch": "1000000000",
    "--seed": "another",
    "--cores": "3",
    "--memory": "512",
    "--time-limit": "100",
    "--name": "renamed",
}
"""None of them the default."""


def test_bank_is_recorded(bank: Recorded) -> None:
    lines = bank.answer.out.splitlines()
    assert HASH.fullmatch(bank.hash), str(bank.answer)
    assert bank.name == "bank-0.1.0"
    assert re.fullmatch(
        r"exited 0: [\d,]+ steps, \d+\.\d{3} s of guest time, \d+\.\d s of host time", lines[1]
    ), str(bank.answer)
    assert bank.path.is_dir()


def test_the_log_of_bank_comes_on_standard_error(bank: Recorded) -> None:
    for text in ("unpackPhase", "bank.c", "balance"):
        assert text in bank.answer.err, str(bank.answer)
        assert "Phase" not in bank.answer.out, str(bank.answer)


def test_the_outputs_of_bank_are_those_that_nix_builds(session: Session, bank: Recorded) -> None:
    data = session.rewind("nix", f"{session.checkout}#bank", "--seed", session.mark, "--json").json
    assert set(data["outputs"]) == {"out", "debug"}
    for name, output in data["outputs"].items():
        assert output["local"] == {"verdict": "same", "nar_hash": output["nar_hash"]}, name
        assert session.nix("hash", "path", "--base32", "--type", "sha256", output["path"]) == (
            output["nar_hash"].removeprefix("sha256:")
        )
    assert bank.answer.out.count("the same as in the local store") == 2, str(bank.answer)


def test_a_second_call_is_quick_and_says_the_same(session: Session, bank: Recorded) -> None:
    begin = time.monotonic()
    again = session.recorded(f"{session.checkout}#bank", "--seed", session.mark)
    took = time.monotonic() - begin
    assert again.hash == bank.hash
    assert "already recorded" in again.answer.out, str(again.answer)
    assert "of host time" not in again.answer.out
    assert took < 20, f"{took:.1f} s"


def test_json_agrees_with_what_a_person_reads(session: Session, bank: Recorded) -> None:
    answer = session.rewind("nix", f"{session.checkout}#bank", "--seed", session.mark, "--json")
    data = answer.json
    assert answer.status == 0
    assert data["hash"] == bank.hash
    assert data["path"] == str(bank.path)
    assert data["outcome"] == {"kind": "exited", "value": 0}
    assert data["was_known"] is True
    assert f" {data['steps']:,} steps, {data['guest_time'] / 1e9:,.3f} s" in bank.answer.out
    for output in data["outputs"].values():
        assert output["nar_hash"] in bank.answer.out


def test_its_drv_names_the_same_run(session: Session, bank: Recorded) -> None:
    drv = session.nix("eval", "--raw", f"{session.checkout}#bank.drvPath")
    assert session.recorded(drv, "--seed", session.mark).hash == bank.hash


def test_an_output_path_names_the_same_run(session: Session, bank: Recorded) -> None:
    out = session.nix("eval", "--raw", f"{session.checkout}#bank.outPath")
    assert session.recorded(out, "--seed", session.mark).hash == bank.hash


def test_a_flake_that_has_rewind_as_an_input_names_the_same_run(
    session: Session, hello: Recorded
) -> None:
    assert session.nix("eval", "--raw", f"{session.jobs}#runs.hello.outPath") == str(hello.path)


def test_nix_build_of_a_flakes_run_makes_what_rewind_finds(session: Session) -> None:
    out = session.nix("build", "--no-link", "--print-out-paths", f"{session.jobs}#runs.bare")
    made = session.recorded(session.job("bare"))
    assert str(made.path) in out.split()
    assert "already recorded" in made.answer.out, str(made.answer)


def test_recording_does_not_build_the_job(session: Session, hello: Recorded) -> None:
    path = session.nix("eval", "--raw", f"{session.jobs}#hello.outPath")
    assert session.run("nix", "path-info", path).status != 0
    assert "nothing to compare it with" in hello.answer.out, str(hello.answer)


def test_every_output_is_there_as_a_nar(session: Session, hello: Recorded) -> None:
    nars = session.nix("build", "--no-link", "--print-out-paths", f"{session.jobs}#runs.hello.nars")
    data = session.rewind("nix", session.job("hello"), "--json").json
    for name in ("out", "doc"):
        digest = session.nix("hash", "file", "--base32", "--type", "sha256", f"{nars}/{name}.nar")
        assert data["outputs"][name]["nar_hash"] == f"sha256:{digest}"


# --- options


@pytest.fixture(scope="module")
def odd(session: Session) -> Recorded:
    """A run with no option as by default."""
    return session.recorded(
        session.job("hello"), *(word for pair in OPTIONS.items() for word in pair)
    )


def test_show_prints_a_command_that_gives_the_same_run(session: Session, bank: Recorded) -> None:
    _same_again(session, bank)


def test_show_prints_the_options_that_a_run_was_made_with(session: Session, odd: Recorded) -> None:
    words = _same_again(session, odd)
    for option, value in OPTIONS.items():
        assert words[words.index(option) + 1] == value


def test_show_leaves_out_what_is_as_by_default(session: Session, hello: Recorded) -> None:
    words = session.rewind("show", hello.hash).out.split()
    for option in ("--seed", "--cores", "--memory", "--time-limit", "--schedule"):
        assert option not in words


def _same_again(session: Session, run: Recorded) -> list[str]:
    """The words of the command that ``show`` prints; they give the run again."""
    shown = session.rewind("show", run.hash)
    command, comment = shown.out.splitlines()
    assert comment == f"# {run.hash}", str(shown)
    # As a person would: in a shell, with rewind on PATH.
    path = f"{session.rewind_program.parent}:{session.environment()['PATH']}"
    again = session.run("bash", "-c", command, PATH=path)
    assert again.status == 0, str(again)
    assert again.out.split()[0] == run.hash, str(again)
    words = shlex.split(command)
    assert session.rewind("show", run.hash, "--json").json["command"] == words
    return words


@pytest.mark.parametrize("option", OPTIONS)
def test_each_option_makes_another_run(session: Session, option: str) -> None:
    plain = session.recorded(session.job("bare"))
    other = session.recorded(session.job("bare"), option, OPTIONS[option])
    assert other.hash != plain.hash
    assert other.name == ("renamed" if option == "--name" else plain.name)


def test_programs_see_one_core_unless_told_otherwise(hello: Recorded) -> None:
    assert "hello on 1 of 1" in hello.answer.err, str(hello.answer)


def test_programs_see_as_many_cores_as_told(odd: Recorded) -> None:
    assert "hello on 3 of 3" in odd.answer.err, str(odd.answer)


def test_a_schedule_perturbs_a_run(session: Session, hello: Recorded) -> None:
    log = session.rewind("log", hello.hash, "--json").json
    step = next(line["step"] for line in log if line["text"] == "hello on 1 of 1")
    schedule = json.dumps([{"at": f"{step}", "stall": 1_000_000_000}])
    made = session.recorded(session.job("hello"), "--schedule", schedule)
    assert made.hash != hello.hash
    (run,) = [run for run in session.rewind("ls", "--json").json if run["hash"] == made.hash]
    assert run["perturbations"] == 1
    found = [
        json.loads(line) for line in session.rewind("events", made.hash, "--json").out.splitlines()
    ]
    (record,) = [record for record in found if record["type"] == "perturbation"]
    assert (record["kind"], record["ns"]) == ("stall", 1_000_000_000)
    # Up to there it is the same run.
    plain = session.rewind("events", hello.hash, "--json").out.splitlines()
    assert [json.loads(line) for line in plain[: record["step"]]] == found[: record["step"]]
    assert record["step"] >= step
    shown = _same_again(session, made)
    assert json.loads(shown[shown.index("--schedule") + 1]) == json.loads(schedule)


# --- other copies


@pytest.fixture
def cache(session: Session) -> Iterator[str]:
    """The URL of a binary cache that has what Nix makes of the job hello."""
    directory = session.directory / "cache"
    session.nix("copy", "--to", f"file://{directory}", session.job("hello") + "^*")
    handler = functools.partial(QuietHandler, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Says nothing on stderr of what is asked for."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@needs_own_store
def test_outputs_are_compared_with_binary_caches(session: Session, cache: str) -> None:
    substituters = f"substituters = {cache}"
    answer = session.rewind("nix", session.job("hello"), NIX_CONFIG=substituters)
    assert answer.status == 0, str(answer)
    assert answer.out.count(f"  the same as in {cache}\n") == 2, str(answer)
    data = session.rewind("nix", session.job("hello"), "--json", NIX_CONFIG=substituters).json
    for output in data["outputs"].values():
        assert output["caches"][cache]["verdict"] == "same"

    narinfo = next((session.directory / "cache").glob("*.narinfo"))
    text = narinfo.read_text()
    good = next(line for line in text.splitlines() if line.startswith("NarHash: "))
    narinfo.write_text(text.replace(good, f"NarHash: sha256:{'0' * 52}"))
    answer = session.rewind("nix", session.job("hello"), NIX_CONFIG=substituters)
    assert answer.status == 1, str(answer)
    assert f"  differs from {cache}: sha256:{'0' * 52}\n" in answer.out, str(answer)


# --- builds that do not end well


@pytest.mark.parametrize(
    ("job", "options", "outcome"),
    [
        ("fails", [], "exited 3"),
        ("killed", [], "signaled 11"),
        ("stalls", [], "stalled"),
        ("spins", ["--time-limit", "1"], "timed-out"),
    ],
)
def test_a_build_that_does_not_end_well_is_recorded(
    session: Session, job: str, options: list[str], outcome: str
) -> None:
    made = session.recorded(session.job(job), *options)
    assert made.answer.out.splitlines()[1].startswith(f"{outcome}: "), str(made.answer)
    assert "out: not made" in made.answer.out, str(made.answer)
    data = session.rewind("nix", session.job(job), *options, "--json").json
    assert data["outputs"]["out"]["nar_hash"] is None
    if job == "spins":
        # The limit, and no more than the record after it.
        assert 1_000_000_000 <= data["guest_time"] < 1_100_000_000
