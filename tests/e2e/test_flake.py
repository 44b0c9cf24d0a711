"""Searches in a flake: its checks, and what they and ``rewind check`` name."""

import json
import re
from pathlib import Path

import pytest

from conftest import SYSTEM, Answer, Session


def check(session: Session, name: str, attribute: str = "") -> Answer:
    """``nix build`` of a job's check, or of an attribute of that."""
    reference = f"{session.jobs}#checks.{SYSTEM}.{name}{attribute}"
    return session.run("nix", "build", "--no-link", "--print-out-paths", reference)


def built(session: Session, name: str, attribute: str) -> list[Path]:
    """The outputs of an attribute of a check, which can be built."""
    answer = check(session, name, attribute)
    assert answer.status == 0, str(answer)
    return [Path(line) for line in answer.out.split()]


def test_check_that_fails(session: Session) -> None:
    """Its log is the report, and its attributes are the runs that the command line names."""
    failed = check(session, "lines")
    assert failed.status == 1, str(failed)
    log = session.run("nix", "log", f"{session.jobs}#checks.{SYSTEM}.lines")
    (search,) = built(session, "lines", ".search")
    report = (search / "report.txt").read_text()
    assert " decides it: thread " in report
    assert log.out.startswith(report), str(log)
    assert "attributes failing and passing" in log.out.removeprefix(report)

    found = session.rewind("check", session.job("lines"), "--json")
    assert found.status == 1, str(found)
    assert found.json["search"] == str(search)
    hashes = found.json["hashes"]
    for side in ("failing", "passing"):
        out = Path(f"/nix/store/{hashes[side]}-rewind-run-{session.name('lines')}")
        assert out in built(session, "lines", f".{side}")
        assert (out / "trace").read_bytes() == (search / f"{side}.trace").read_bytes()
    unperturbed = f"/nix/store/{hashes['0']}-rewind-run-{session.name('lines')}"
    assert Path(unperturbed) in built(session, "lines", ".unperturbed")


def test_check_that_passes(session: Session) -> None:
    """It has a search and an unperturbed run, and no others."""
    passed = check(session, "bare")
    assert passed.status == 0, str(passed)
    (search,) = built(session, "bare", ".search")
    assert (search / "clean").exists()
    assert built(session, "bare", ".unperturbed")
    for side in ("failing", "passing"):
        answer = check(session, "bare", f".{side}")
        assert answer.status == 1, str(answer)
        sentence = f"rewind: the search found no two outcomes of {session.name('bare')}"
        assert answer.sentence.endswith(sentence), str(answer)


def test_check_of_what_always_fails(session: Session) -> None:
    """It fails, and there is no position that decides."""
    failed = check(session, "failsAlways")
    assert failed.status == 1, str(failed)
    log = session.run("nix", "log", f"{session.jobs}#checks.{SYSTEM}.failsAlways")
    name = session.name("fails-always")
    sentence = f"{name} fails without any perturbation (exited 3), and under all 4 schedules"
    assert sentence in log.out, str(log)
    assert "attributes" not in log.out
    answer = check(session, "failsAlways", ".failing")
    assert "found no two outcomes" in answer.sentence, str(answer)


def test_the_template(session: Session) -> None:
    """A new project from the template: its build passes, and its check finds when it does not."""
    place = session.directory / "template"
    place.mkdir()
    session.nix("flake", "init", "--template", str(session.checkout), cwd=place)
    flake = json.loads(session.nix("flake", "metadata", "--json", str(session.checkout)))
    inputs = [
        *("--override-input", "nixpkgs", f"path:{session.nixpkgs}"),
        *("--override-input", "rewind", f"path:{flake['path']}"),
        "--no-write-lock-file",
    ]
    session.nix("build", "--no-link", f"path:{place}", *inputs)
    checked = session.run("nix", "flake", "check", "-L", f"path:{place}", *inputs)
    assert checked.status != 0, str(checked)
    assert re.search(r"step [\d+]+ decides it: thread \d+ stalls .* in count \(tally\.c:\d+\)",
                     checked.err), str(checked)  # fmt: skip
    failing = f"path:{place}#checks.x86_64-linux.schedules.failing"
    (run,) = session.nix("build", "--no-link", "--print-out-paths", failing, *inputs).split()
    log = session.rewind("log", run)
    assert "more" in log.out and "42 votes" not in log.out, str(log)


def test_the_overlay(session: Session) -> None:
    """pkgs.rewind is the command line, with the functions on it, for a package's passthru.tests."""
    expression = """
      { nixpkgs, rewind }:
      let
        pkgs = import nixpkgs {
          system = "x86_64-linux";
          config = { };
          overlays = [ (builtins.getFlake rewind).overlays.default ];
        };
        package = pkgs.stdenv.mkDerivation (finalAttrs: {
          name = "x";
          passthru.tests.rewind = pkgs.rewind.check { drv = finalAttrs.finalPackage; };
        });
      in
      [ pkgs.rewind.meta.mainProgram package.passthru.tests.rewind.unperturbed.name ]
    """
    flake = json.loads(session.nix("flake", "metadata", "--json", str(session.checkout)))
    found = session.nix(
        *("eval", "--impure", "--json", "--expr", f"({expression})"),
        *("--apply", f'f: f {{ nixpkgs = "{session.nixpkgs}"; rewind = "path:{flake["path"]}"; }}'),
    )
    assert json.loads(found) == ["rewind", "rewind-run-x"], found


def evaluated(session: Session, place: Path, harness: str, body: str) -> Answer:
    """What *body* is in a flake that has rewind as an input, as JSON.

    There are ``rewind``, ``pkgs``, and ``eval``: that is tests/modules' *harness*.
    """
    (place / "harness.nix").write_bytes(
        (session.checkout / "tests" / "modules" / f"{harness}.nix").read_bytes()
    )
    (place / "flake.nix").write_text(
        f"""{{
          inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";
          inputs.rewind.url = "github:OWNER/rewind";
          inputs.rewind.inputs.nixpkgs.follows = "nixpkgs";
          outputs = {{ nixpkgs, rewind, ... }}:
            let
              pkgs = nixpkgs.legacyPackages.x86_64-linux;
              eval = import ./harness.nix {{ inherit pkgs; inherit (pkgs) lib; }};
            in
            {{ answer = {body}; }};
        }}"""
    )
    flake = json.loads(session.nix("flake", "metadata", "--json", str(session.checkout)))
    return session.run(
        *("nix", "eval", "--json", f"path:{place}#answer", "--no-write-lock-file"),
        *("--override-input", "nixpkgs", f"path:{session.nixpkgs}"),
        *("--override-input", "rewind", f"path:{flake['path']}"),
    )


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            'postBuildHook.settings.schedules = "64";',
            "A definition for option `services.rewind.postBuildHook.settings.schedules' is not of"
            " type `positive integer, meaning >0'",
        ),
        (
            'postBuildHook.settings.action = "run";',
            "`services.rewind.postBuildHook.settings.action' is not of type"
            ' `one of "record", "check"\'',
        ),
        (
            "postBuildHook.colour = 1;",
            "The option `services.rewind.postBuildHook.colour' does not exist",
        ),
    ],
)
def test_the_nixos_module_says_what_is_wrong(
    session: Session, tmp_path: Path, settings: str, says: str
) -> None:
    answer = evaluated(
        session,
        tmp_path,
        "nixos",
        f"(eval [ rewind.nixosModules.default {{ services.rewind = {{ {settings} }}; }} ])"
        ".config.services.rewind.postBuildHook.settings",
    )
    assert answer.status != 0 and says in answer.err, str(answer)


@pytest.mark.parametrize(
    ("check", "says"),
    [
        (
            "{ drv = pkgs.hello; shards = 0; }",
            "`perSystem.x86_64-linux.rewind.checks.hello.shards' is not of type"
            " `positive integer, meaning >0'",
        ),
        (
            "{ schedules = 3; }",
            "`perSystem.x86_64-linux.rewind.checks.hello.drv' was accessed but has no value",
        ),
    ],
)
def test_the_flake_module_says_what_is_wrong(
    session: Session, tmp_path: Path, check: str, says: str
) -> None:
    answer = evaluated(
        session,
        tmp_path,
        "flake-parts",
        f"""
          (eval {{
            imports = [ rewind.flakeModules.default ];
            systems = [ "x86_64-linux" ];
            perSystem.rewind.checks.hello = {check};
          }}).flake.checks.x86_64-linux.hello.drvPath
        """,
    )
    assert answer.status != 0 and says in answer.err, str(answer)
