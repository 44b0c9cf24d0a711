"""job.json, against what Nix gave the same derivations (samples/job.nix, built by Nix 2.26.3)."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewind.formats import FormatError
from rewind.formats.job import Job, nix_json, placeholder, shell_declarations

SAMPLES = Path(__file__).parent / "samples"


def sample(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((SAMPLES / f"job-{name}.json").read_text())
    return data


def parse(data: object) -> Job:
    return Job.parse(json.dumps(data))


def parameters(data: bytes) -> list[tuple[str, bytes]]:
    """Read parameters back, as docs/design.md says they are."""
    found = []
    while data:
        head, data = data.split(b"\n", 1)
        key, length = head.decode().split(" ")
        value, data = data[: int(length)], data[int(length) :]
        assert data[:1] == b"\n"
        data = data[1:]
        found.append((key, value))
    return found


@pytest.mark.parametrize("name", ["plain", "structured"])
def test_as_nix_does_it(name: str) -> None:
    expected = sample(name)
    sandbox = parse(expected["job"]).sandbox(expected["cores"], expected["closures"])
    assert [f"{key}={value}" for key, value in sandbox.env.items()] == expected["env"]
    assert {name: data.decode() for name, data in sandbox.files.items()} == expected["files"]


def test_parameters() -> None:
    expected = sample("plain")
    job = parse(expected["job"])
    found = parameters(
        job.parameters(
            layers=2,
            epoch=1791331200,
            seed="0",
            cores=1,
            shell="/nix/store/shell",
            closures=expected["closures"],
        )
    )
    values: dict[str, list[bytes]] = {}
    for key, value in found:
        values.setdefault(key, []).append(value)
    assert values["layers"] == [b"2"]
    assert values["epoch"] == [b"1791331200"]
    assert values["cores"] == [b"1"]
    assert values["shell"] == [b"/nix/store/shell"]
    assert values["builder"] == [b"/bin/sh"]
    assert len(values["seed"][0]) == 32
    # The shell took "-c", the script and "sh" (which is $0) for itself.
    assert [arg.decode() for arg in values["arg"][3:]] == expected["args"]
    assert [entry.decode() for entry in values["env"]] == expected["env"]
    assert {
        name.decode(): content.decode()
        for name, content in (entry.split(b"\0", 1) for entry in values["file"])
    } == expected["files"]
    assert values["output"] == [f"{name}\0{path}".encode() for name, path in job.outputs.items()]
    assert list(job.outputs) == ["out", "dev"]


ROOT: dict[str, Any] = {
    "name": "make",
    "builder": "make",
    "args": ["check"],
    "env": {"HOME": "/home/u", "CI": "1"},
    "outputs": [],
    "structuredAttrs": None,
    "root": "/src",
}


def test_parameters_of_a_root() -> None:
    job = parse(ROOT)
    assert job.graphs() == ()
    given = job.parameters(layers=1, epoch=1, seed="0", cores=4, shell="/nix/x", closures={})
    found = [(key, value) for key, value in parameters(given) if key != "seed"]
    assert found == [
        ("layers", b"1"),
        ("epoch", b"1"),
        ("cores", b"4"),
        ("root", b"/src"),
        ("builder", b"make"),
        ("arg", b"check"),
        ("env", b"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("env", b"HOME=/home/u"),
        ("env", b"HOSTNAME=localhost"),
        ("env", b"CI=1"),
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"root": "src"},
        {"structuredAttrs": {}},
        {"outputs": [{"name": "out", "path": "/nix/store/x"}]},
    ],
)
def test_refused_of_a_root(change: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="has a root, and what does not go with it"):
        parse(ROOT | change)


def test_seed_decides_the_bytes() -> None:
    job = parse(sample("structured")["job"])
    closures = sample("structured")["closures"]

    def seed(text: str) -> bytes:
        data = job.parameters(layers=1, epoch=0, seed=text, cores=1, shell="/", closures=closures)
        return dict(parameters(data))["seed"]

    assert seed("0") == seed("0") != seed("1")


def test_placeholder() -> None:
    # What `nix eval --expr 'builtins.placeholder "out"'` prints.
    assert placeholder("out") == "/1rz4g4znpzjwh1xymhjpm42vipw92pr73vdgl6xs1hycac8kf2n9"


JOB: dict[str, Any] = {
    "name": "x",
    "builder": "/bin/sh",
    "args": ["-c", "true"],
    "env": {"out": "/nix/store/x"},
    "outputs": [{"name": "out", "path": "/nix/store/x"}],
    "structuredAttrs": None,
}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": None}, "name is not what it should be"),
        ({"builder": "builtin:fetchurl"}, "builtin:fetchurl, is no program"),
        ({"args": [1]}, "no string"),
        ({"env": {"a": 1}}, "no string"),
        ({"outputs": []}, "no output"),
        ({"outputs": ["out"]}, "no object"),
        ({"structuredAttrs": "{}"}, "structuredAttrs is no object"),
    ],
)
def test_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(FormatError, match=sentence):
        parse(JOB | change)


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"'])
def test_damaged(text: str) -> None:
    with pytest.raises(FormatError, match="the job is damaged"):
        Job.parse(text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"job\.json"):
        Job.load(tmp_path / "job.json")


@pytest.mark.parametrize("graph", ["odd", "../x /nix/store/x", "a b c"])
def test_malformed_graphs(graph: str) -> None:
    with pytest.raises(FormatError, match="no list of names and paths"):
        parse(JOB | {"env": {"exportReferencesGraph": graph}}).graphs()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(JSON)
def test_json_means_the_same(value: object) -> None:
    assert json.loads(nix_json(value)) == value


@given(st.dictionaries(st.from_regex(r"[a-z_]+", fullmatch=True), JSON))
def test_declarations_are_always_made(data: dict[str, Any]) -> None:
    text = shell_declarations(data)
    for name, value in data.items():
        if isinstance(value, str):
            quoted = value.replace("'", "'\\''")
            assert f"declare {name}='{quoted}'\n" in text
