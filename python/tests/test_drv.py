"""Derivations, and which of them are refused."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewind.cli import drv, nix
from rewind.cli.errors import Failure

OUT = "/nix/store/9d1ncnkxfhqhzsqzg2ln8lbp6v8jkk2k-bank"


def string(text: str) -> str:
    """As Nix writes it in a .drv."""
    for char, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(char, escape)
    return f'"{text}"'


def aterm(
    env: dict[str, str] | None = None,
    outputs: tuple[tuple[str, str, str, str], ...] = (("out", OUT, "", ""),),
    system: str = "x86_64-linux",
    builder: str = "/bin/sh",
) -> str:
    """A .drv's text."""
    env = {"name": "bank", "out": OUT, **(env or {})}
    listed = ",".join(f"({','.join(map(string, output))})" for output in outputs)
    pairs = ",".join(f"({string(name)},{string(value)})" for name, value in sorted(env.items()))
    return (
        f'Derive([{listed}],[("/nix/store/a.drv",["dev","out"])],["/nix/store/src"],'
        f'{string(system)},{string(builder)},["-c","echo \\"hi\\" > $out\\n"],[{pairs}])'
    )


def read(tmp_path: Path, text: str) -> drv.Derivation:
    path = tmp_path / "9d1ncnkxfhqhzsqzg2ln8lbp6v8jkk2k-bank.drv"
    path.write_text(text)
    return drv.read(path)


def test_read(tmp_path: Path) -> None:
    found = read(tmp_path, aterm({"text": 'a\\b\n"ü"\t'}))
    assert found.name == "bank"
    assert found.system == "x86_64-linux"
    assert found.builder == "/bin/sh"
    assert found.args == ["-c", 'echo "hi" > $out\n']
    assert found.env == {"name": "bank", "out": OUT, "text": 'a\\b\n"ü"\t'}
    assert found.outputs == {"out": OUT}
    assert found.input_drvs == {"/nix/store/a.drv": ["dev", "out"]}
    assert found.input_srcs == ["/nix/store/src"]
    assert found.structured_attrs is None
    drv.check(found)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_string(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Whatever is in a string is read as it is."""
    found = read(tmp_path_factory.mktemp("drv"), aterm({"x": text}))
    assert found.env["x"] == text


def test_outputs_in_their_order(tmp_path: Path) -> None:
    """As the derivation lists them: the first is the default one."""
    outputs = (("debug", OUT + "-debug", "", ""), ("out", OUT, "", ""))
    assert list(read(tmp_path, aterm({"outputs": "out debug"}, outputs)).outputs) == [
        "out",
        "debug",
    ]
    structured = {"__json": json.dumps({"outputs": ["out", "debug"]})}
    assert list(read(tmp_path, aterm(structured, outputs)).outputs) == ["out", "debug"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (aterm({"__noChroot": "1"}), "has __noChroot"),
        (aterm({"__json": '{"__noChroot": true}'}), "has __noChroot"),
        (aterm({"requiredSystemFeatures": "big-parallel kvm"}), "system feature kvm"),
        (aterm({"__json": '{"requiredSystemFeatures": ["uid-range"]}'}), "feature uid-range"),
        (aterm(system="aarch64-linux"), "is for aarch64-linux: the machine is x86_64-linux"),
        (aterm(builder="builtin:fetchurl"), "built by Nix itself"),
        (aterm(outputs=(("out", OUT, "sha256", "00" * 32),)), "is a fixed-output derivation"),
        (aterm(outputs=(("out", "", "r:sha256", ""),)), "is content-addressed"),
        (aterm(outputs=(("out", "", "", ""),)), "is content-addressed, or made from"),
        (aterm({"__impure": "1"}, (("out", "", "r:sha256", "impure"),)), "is impure"),
    ],
)
def test_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(Failure, match=f"^bank .*{why}"):
        drv.check(read(tmp_path, text))


@pytest.mark.parametrize("features", ["", "big-parallel benchmark"])
def test_not_refused(tmp_path: Path, features: str) -> None:
    drv.check(read(tmp_path, aterm({"requiredSystemFeatures": features, "__noChroot": ""})))


@pytest.mark.parametrize(
    "text",
    ["", "hello", "Derive(", "Derive()", "Derive([[", 'DrvWithVersion("xp-dyn-drv",[])'],
)
def test_no_derivation(tmp_path: Path, text: str) -> None:
    with pytest.raises(Failure, match=r"derivation|dynamic inputs"):
        read(tmp_path, text)


@given(st.binary(max_size=100))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("drv") / "x.drv"
    path.write_bytes(b"Derive(" + data)
    with pytest.raises(Failure):
        drv.read(path)


def test_resolve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of a .drv is read without asking Nix."""
    monkeypatch.setattr(nix, "STORE", tmp_path)
    monkeypatch.setenv("PATH", "")
    read(tmp_path, aterm())
    path = next(tmp_path.iterdir())
    (tmp_path.parent / "result.drv").symlink_to(path)
    assert drv.resolve(str(path)).path == path
    assert drv.resolve(f"{path}^out").path == path
    assert drv.resolve(str(tmp_path.parent / "result.drv")).path == path
    with pytest.raises(Failure, match="no such derivation"):
        drv.resolve(str(tmp_path / "other.drv"))
    with pytest.raises(Failure, match="is not in the store"):
        drv.resolve("/etc/x.drv")


def test_resolve_an_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that something was built as means what it was built from, if that is known."""
    monkeypatch.setattr(nix, "STORE", tmp_path)
    made = read(tmp_path, aterm()).path
    (tmp_path / "out").mkdir()
    asked = []

    def derivation(installable: str) -> Path:
        asked.append(installable)
        if len(asked) > 1:
            raise Failure("no known deriver")
        return made

    monkeypatch.setattr(nix, "derivation", derivation)
    (tmp_path.parent / "result").symlink_to(tmp_path / "out")
    assert drv.resolve(str(tmp_path.parent / "result")).path == made
    assert asked == [str(tmp_path / "out")]
    with pytest.raises(Failure, match="is no derivation, and the store does not know"):
        drv.resolve(str(tmp_path / "out"))
