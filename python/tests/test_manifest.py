"""The manifest: round trips, the stored sample, and what damaged input gets."""

from pathlib import Path

import attrs
import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewind.formats import FormatError, nixbase32
from rewind.formats.manifest import Manifest, Outcome, Output
from rewind.formats.schedule import Named, NamedPerturbation, Perturbation, Position

SAMPLE = Path(__file__).parent / "samples" / "manifest.cbor"

MANIFEST = Manifest(
    name="bank-0.1.0",
    drv="/nix/store/v2vjzkdwc8jc14wdys4m1ndgp4zg8a7m-bank-0.1.0.drv",
    system="x86_64-linux",
    schedule=(Perturbation(3237, 41, "stall", 1_000_000),),
    epoch=1_791_331_200,
    seed="",
    cores=1,
    memory=1024,
    time_limit=3600,
    machine="/nix/store/l1fxqzi4rb9mnwn1m3shrpdrnqw66c2q-rewind-machine",
    layers=("/nix/store/1i2d5sxbc8ds6vpzmv6z2mzlxgx9ncgd-layer.erofs",),
    outcome=Outcome("exited", 0),
    steps=4321,
    start=1_000_000,
    end=2_500_000,
    outputs={
        "out": Output(
            "/nix/store/9d1ncnkxfhqhzsqzg2ln8lbp6v8jkk2k-bank-0.1.0",
            "sha256:0mdqa9w1p6cmli6976v4wi0sw9r4p5prkj7lzfd1877wk11c9c73",
            4096,
        )
    },
    messages=("layers: 1",),
)


def test_sample() -> None:
    """A file that version 0.1.0 wrote still means what it meant, and is written the same."""
    assert Manifest.load(SAMPLE) == MANIFEST
    assert MANIFEST.to_cbor() == SAMPLE.read_bytes()


def test_came() -> None:
    """Where the schedule's perturbations came; older recorders did not say it of steps."""
    schedule = (*MANIFEST.schedule, NamedPerturbation(Named(12, 3), "reschedule"))
    at = Position(17, 4)
    manifest = attrs.evolve(MANIFEST, schedule=schedule, came=(None, at))
    assert Manifest.from_cbor(manifest.to_cbor()) == manifest
    assert manifest.arrivals == (None, at)
    assert manifest.steps_perturbed == (Perturbation(17, 4, "reschedule"),)
    assert MANIFEST.arrivals == (Position(3237, 41),)
    assert attrs.evolve(MANIFEST, steps=3237).arrivals == (None,)
    with pytest.raises(FormatError, match="came is not what it should be"):
        attrs.evolve(manifest, came=(at,))
    with pytest.raises(FormatError, match="came is not what it should be"):
        attrs.evolve(manifest, came=(None, Position(4321)))


def test_properties() -> None:
    assert MANIFEST.guest_time == 1_500_000
    assert str(MANIFEST.outcome) == "exited 0"
    assert MANIFEST.outcome.success
    assert not Outcome("exited", 1).success
    assert str(Outcome("timed-out")) == "timed-out"


@pytest.mark.parametrize(
    ("kind", "value"), [("exited", 256), ("exited", -1), ("stalled", 1), ("done", 0)]
)
def test_no_outcome(kind: str, value: int) -> None:
    with pytest.raises(FormatError, match="no outcome"):
        Outcome(kind, value)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [field.name for field in attrs.fields(Manifest)])
@pytest.mark.parametrize("value", [None, True, 1.5, ["x", 1], {"a": 1}])
def test_wrong_field(name: str, value: object) -> None:
    data = cbor2.loads(SAMPLE.read_bytes())
    if name == "came" and value is None:
        # As in the sample, which a recorder wrote that did not say.
        return
    data[name] = value
    with pytest.raises(FormatError):
        Manifest.from_cbor(cbor2.dumps(data))


def test_newer_version() -> None:
    data = cbor2.loads(SAMPLE.read_bytes())
    data["version"] = 2
    with pytest.raises(FormatError, match="version 2; this rewind reads version 1"):
        Manifest.from_cbor(cbor2.dumps(data))


@given(st.integers(0, SAMPLE.stat().st_size - 1))
def test_truncated(size: int) -> None:
    with pytest.raises(FormatError):
        Manifest.from_cbor(SAMPLE.read_bytes()[:size])


@given(st.binary(max_size=100))
def test_any_bytes(data: bytes) -> None:
    with pytest.raises(FormatError):
        Manifest.from_cbor(data)


def test_trailing_bytes() -> None:
    with pytest.raises(FormatError, match="follows its end"):
        Manifest.from_cbor(SAMPLE.read_bytes() + b"\0")


def test_nested_too_deep() -> None:
    with pytest.raises(FormatError, match="damaged"):
        Manifest.from_cbor(b"\x81" * 1_000_000)


def test_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "manifest.cbor").write_bytes(b"")
    with pytest.raises(FormatError, match=r"/manifest\.cbor: the manifest is damaged"):
        Manifest.load(tmp_path / "manifest.cbor")
    with pytest.raises(FormatError, match="No such file"):
        Manifest.load(tmp_path / "none")


@pytest.mark.parametrize(
    ("base16", "base32"),
    [
        # What `nix hash convert --to nix32` (2.26) prints.
        (
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "0mdqa9w1p6cmli6976v4wi0sw9r4p5prkj7lzfd1877wk11c9c73",
        ),
        ("da39a3ee5e6b4b0d3255bfef95601890afd80709", "143xibwh31h9bvxzalr0sjvbbvpa6ffs"),
    ],
)
def test_base32(base16: str, base32: str) -> None:
    assert nixbase32.encode(bytes.fromhex(base16)) == base32
    assert nixbase32.decode(base32).hex() == base16


@given(st.binary(max_size=70))
def test_base32_round_trip(data: bytes) -> None:
    assert nixbase32.decode(nixbase32.encode(data)) == data


@pytest.mark.parametrize("text", ["e", "0", "zz", "000", "1o"])
def test_no_base32(text: str) -> None:
    with pytest.raises(ValueError, match=r"base 32|no digit"):
        nixbase32.decode(text)


def test_sha256() -> None:
    assert nixbase32.sha256(bytes(32)) == "sha256:" + "0" * 52
    with pytest.raises(ValueError, match="32 bytes"):
        nixbase32.sha256(b"")


def test_what_is_said_of_a_hash_is_one_line() -> None:
    with pytest.raises(FormatError) as error:
        Output("/nix/store/x", "sha256:\n" + "0" * 52, 1)
    assert "\n" not in str(error.value)
