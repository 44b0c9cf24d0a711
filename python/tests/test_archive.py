"""``.rwd`` files: what they are, and what damaged and hostile ones get."""

import hashlib
import io
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import cbor2
import pytest
import zstandard

import rwd
import traces
from conftest import Rewind, Store
from rewind.cli import importing, nix, places, recording, seen
from rewind.cli.errors import Failure, Interrupted
from rewind.cli.recording import Options
from rewind.formats import FormatError
from rewind.formats.schedule import Position
from rewind.formats.trace import TraceReader
from rewind.travel import archive, check
from rewind.travel.archive import Archive, Content
from rewind.travel.bookmarks import Bookmarks
from rwd import HASH, NAME, Part

SAMPLE = Path(__file__).parent / "samples" / "run.rwd"


@pytest.fixture(autouse=True)
def _defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "defaults", lambda: Options.of(rwd.manifest()))


def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "rewind"


def left(tmp_path: Path) -> list[str]:
    """What there is of imported runs, but for the lock."""
    directory = state(tmp_path) / "imported"
    return sorted(path.name for path in directory.iterdir() if path.name != "lock")


def everything(directory: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


def test_round_trip(tmp_path: Path) -> None:
    data = rwd.good(rwd.with_paths())
    assert data == rwd.good(rwd.with_paths())
    with Archive(rwd.write(tmp_path / "f", data)) as found:
        assert [entry.kind for entry in found.entries] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 9]
        for kind, content in rwd.parts().items():
            assert found.read(kind) == content
        assert [b"".join(found.chunks(nar)) for nar in found.nars()] == [b"one", b"another"]


def test_stored_sample(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    """What this version wrote when it was the first, every later one reads."""
    assert rewind("import", str(SAMPLE)).status == 0
    assert left(tmp_path) == [rwd.STORE_NAME]
    assert rewind("log", NAME).out == rwd.LOG.decode()
    assert rewind("bookmark", NAME).out == "8  the write\n"
    assert "deposit (bank.c:2)" in rewind("where", NAME, "8").out
    assert SAMPLE.read_bytes()[8:12] == struct.pack("<I", 1)


def test_later_version(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    file = rwd.write(tmp_path / "f.rwd", rwd.raw([], version=7))
    result = rewind("import", str(file))
    assert result.status == 2
    assert result.err == (
        f"rewind: {file} is of version 7; this rewind reads versions up to {archive.VERSION}\n"
    )


def test_found_and_read_like_any_other(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    store.add_run("2", "other")
    file = rwd.write(tmp_path / "f.rwd", rwd.good())
    result = rewind("import", str(file))
    assert (result.status, result.err) == (0, "")
    assert result.out == f"{HASH}  {NAME}: imported, 1 new bookmark\n"
    assert "imported" in rewind("ls").out.splitlines()[1]
    (row,) = (row for row in rewind("ls", "--json").json if row["hash"] == HASH)
    assert row["imported"] is True
    for words in (
        ["log", "1a"],
        ["log", "1a", "--steps"],
        ["events", NAME],
        ["ps", "1a", "5"],
        ["threads", "1a"],
        ["show", "@"],
        ["compare", "1a", "1a"],
        ["log", str(state(tmp_path) / "imported" / rwd.STORE_NAME)],
    ):
        result = rewind(*words)
        assert (result.status, result.err) == (0, ""), words
        assert result.out
    assert "line" in rewind("log", "1a", "--steps").out

    again = rewind("import", str(file))
    assert (again.status, again.out) == (0, f"{HASH}  {NAME}: was imported before\n")


def test_where_by_the_file(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    rewind("import", str(rwd.write(tmp_path / "f.rwd", rwd.good())))
    said = rewind("where", "1a", "8").out.splitlines()
    assert said[0] == "process 2 (make), thread 2 at step 8"
    assert said[1] == "#1 deposit (bank.c:2)" and ">      2  two" in said
    assert said[-1] == "called from #2 work (bank.c:3)"
    # Thread 2 is still in the call, and thread 1 waits since step 7.
    assert "thread 2" in rewind("where", "1a", "8+3").out
    assert rewind("where", "1a", "8", "--json").json["source"]["lines"] == ["one", "two", "three"]
    assert "waits for the end of 2" in rewind("where", "1a", "8", "--tid", "1").out
    assert len(rewind("threads", "1a", "8").out.splitlines()) == 2
    for words, why in (
        (["where", "1a", "12"], "it has 2 places, the nearest at 8; 1a000000 was imported"),
        (["where", "1a", "8", "--tid", "9"], "there is no thread 9"),
        (["where", "1a", "8", "--frame", "7"], "there is no frame 7"),
        (["threads", "1a", "12"], "it says it at 8"),
        (["cat", "1a", "8", "/x"], "rewind export --replayable wrote, with --trust"),
        (["replay", "1a"], "what makes it again is not in the store"),
    ):
        result = rewind(*words)
        assert result.status == 2 and why in result.err, result


def test_the_store_has_it(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    path = store.add_run("1a", NAME, log=rwd.LOG, manifest=rwd.manifest())
    file = rwd.write(tmp_path / "f.rwd", rwd.good())
    result = rewind("import", str(file))
    assert (result.status, result.err) == (0, ""), result
    assert "is in the store, and the same, 1 new bookmark" in result.out
    (path / "log").write_bytes(b"another")
    result = rewind("import", str(file))
    assert (
        result.status == 1 and f"{path} is another run than the file's: log differs" in result.out
    )
    assert left(tmp_path) == []


def test_another_of_that_name_was_imported(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    rewind("import", str(rwd.write(tmp_path / "f.rwd", rwd.good())))
    before = everything(state(tmp_path))
    result = rewind("import", str(rwd.write(tmp_path / "g.rwd", rwd.good(log=b"x\n"))))
    assert result.status == 1 and "log differs" in result.out
    assert everything(state(tmp_path)) == before


def test_bookmarks_are_merged(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    file = rwd.write(tmp_path / "f.rwd", rwd.good())
    rewind("import", str(file))
    assert rewind("bookmark", "1a", "3", "mine").status == 0
    assert rewind("bookmark", "1a", "8", "--remove").status == 0
    assert "1 new bookmark" in rewind("import", str(file)).out
    assert len(Bookmarks(places.bookmarks()).of(HASH)) == 2


def test_export_again(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    """What was imported can be exported, and is the same file."""
    file = rwd.write(tmp_path / "f.rwd", rwd.good())
    rewind("import", str(file))
    assert rewind("export", "1a", "-o", str(tmp_path / "g.rwd")).status == 0
    assert (tmp_path / "g.rwd").read_bytes() == file.read_bytes()


def test_export_without_a_machine(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    """It says what is missing, and the rest is there."""
    store.add_run("1a", NAME, log=rwd.LOG, manifest=rwd.manifest())
    result = rewind("export", "1a", "-o", str(tmp_path / "f.rwd"), "--no-places", "--json")
    assert result.status == 0, result
    assert [entry["kind"] for entry in result.json["entries"]] == list(archive.NAMES[:4])
    (store.path / f"{HASH}-rewind-run-{NAME}" / "trace").write_bytes(b"rwtrace\n")
    result = rewind("export", "1a", "-o", str(tmp_path / "g.rwd"), "--no-places")
    assert result.status == 2 and "can't be exported" in result.err
    assert sorted(path.name for path in tmp_path.glob("*g.rwd*")) == []


@pytest.mark.parametrize(("program", "calls"), [(b"./bank", [2, 4]), (b"/bin/sh", [2, 4, 8, 18])])
def test_where_it_is_looked(tmp_path: Path, program: bytes, calls: list[int]) -> None:
    """Where the schedule, a signal and the end are; and in calls of what the run has made."""
    records = traces.sample()
    # What process 2 and thread 1 execute later is none of it.
    records[1] = traces.execute(1, program, b"x", time=100)
    records[5] = traces.execute(1, b"/bin/sh", b"sh", time=450)
    with TraceReader(traces.write(tmp_path / "trace", records)) as reader:
        found = seen._wanted(reader, [Position(3, 7), Position(99)])
    whole = [str(one.position) for one in found if one.tid is None]
    assert whole == ["3+7", "12", "16", "20"]
    assert [one.position.step for one in found if one.tid is not None] == calls


@pytest.mark.parametrize(
    ("target", "why"), [("", "is a directory"), ("no/f", "No such file or directory")]
)
def test_export_to_nowhere(
    store: Store, rewind: Rewind, tmp_path: Path, target: str, why: str
) -> None:
    store.add_run("1a", NAME, log=rwd.LOG, manifest=rwd.manifest())
    result = rewind("export", "1a", "--no-places", "-o", str(tmp_path / target))
    assert result.status == 2 and why in result.err


# --- damage


def refused(rewind: Rewind, tmp_path: Path, data: bytes, *words: str) -> str:
    """That a file with *data* is refused with one sentence, which is returned."""
    result = rewind("import", str(rwd.write(tmp_path / "f.rwd", data)), *words)
    assert (result.status, result.out) == (2, ""), result
    assert result.err.startswith("rewind: ") and result.err.count("\n") == 1
    assert ".new-" not in result.err and result.err.isascii()
    assert not state(tmp_path).exists() or left(tmp_path) == []
    return result.err


def test_truncated(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    data = rwd.good()
    for size in [*range(0, 600, 7), *range(600, len(data), 97), len(data) - 1]:
        refused(rewind, tmp_path, data[:size])


def test_flipped(store: Store, tmp_path: Path) -> None:
    """A bit that is another one is found, or means nothing."""
    data = rwd.good()
    target = state(tmp_path) / "imported" / rwd.STORE_NAME
    file = tmp_path / "f.rwd"
    taken = 0
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        file.write_bytes(changed)
        try:
            importing.take(file, trust=False)
        except Failure:
            assert left(tmp_path) == []
            continue
        taken += 1
        parts = rwd.parts()
        assert all(
            (target / name).read_bytes() == parts[kind] for kind, name in importing.FILES.items()
        )
        importing.remove(target)
    # Bits of zstd's that say how it was compressed.
    assert taken < 20


def test_what_is_no_file(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "none", ""):
        result = rewind("import", str(tmp_path / name))
        assert result.status == 2 and result.err.count("\n") == 1


HUGE = 1 << 63


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"size": HUGE}, "log says to have 9,223,372,036,854,775,808 bytes"),
        ({"packed_size": HUGE}, "is cut short"),
        ({"packed_size": 2**64 - 1}, "is cut short"),
        ({"size": 3}, "log has more than the 3 bytes it says"),
        ({"size": 30}, "log is 20 bytes short"),
        ({"digest": bytes(32)}, "log does not have its checksum"),
        ({"packed": b"no zstd"}, "log can't be decompressed"),
        ({"packed": b""}, "log is 10 bytes short"),
        ({"kind": 0}, "its table makes no sense"),
        ({"kind": 10}, "its table makes no sense"),
        ({"kind": 2}, "its table makes no sense"),
        ({"kind": 9}, "it has no log"),
    ],
)
def test_hostile_entry(
    store: Store, rewind: Rewind, tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    parts = [Part(kind, content) for kind, content in rwd.parts().items() if kind <= 4]
    assert why in refused(
        rewind, tmp_path, rwd.raw([*parts[:3], attrs.evolve(parts[3], **changes)])
    )


def test_hostile_table(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    parts = [Part(kind, content) for kind, content in rwd.parts().items()]
    for data, why in (
        (rwd.raw(parts, count=2**32 - 1), "its head makes no sense"),
        (rwd.raw(parts, count=20_000), "is cut short"),
        (rwd.raw(parts, version=0), "its head makes no sense"),
        (rwd.raw(parts[::-1]), "its table makes no sense"),
        (rwd.raw([parts[0], *parts]), "its table makes no sense"),
        (rwd.raw(parts[1:]), "it has no about"),
        (rwd.raw(parts) + b"x", "something follows its end"),
        (rwd.raw([*parts, Part(9, b"x")]), "it has NARs and does not say whose"),
    ):
        assert why in refused(rewind, tmp_path, data)


def test_bomb(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    """A file of kilobytes that becomes gigabytes stops at what it may be."""
    zeros = bytes(1 << 20)
    compressor = zstandard.ZstdCompressor(level=19)
    packed = io.BytesIO()
    with compressor.stream_writer(packed, closefd=False) as writer:
        for _ in range(2048):
            writer.write(zeros)
    parts = {kind: Part(kind, content) for kind, content in rwd.parts().items()}
    assert len(packed.getvalue()) < 1 << 20
    for kind in parts:
        bomb = attrs.evolve(parts[kind], packed=packed.getvalue(), size=1000)
        said = refused(rewind, tmp_path, rwd.raw([*(parts | {kind: bomb}).values()]))
        assert "has more than the 1,000 bytes it says" in said
    # One that owns up is no different.
    bomb = Part(6, b"", packed=packed.getvalue(), size=2048 << 20)
    said = refused(rewind, tmp_path, rwd.raw([*(parts | {6: bomb}).values()]))
    assert "places says to have 2,147,483,648 bytes, and may have 4,194,304" in said


def test_window(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    """zstd's memory is bounded, too."""
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    packed = io.BytesIO()
    with zstandard.ZstdCompressor(compression_params=parameters).stream_writer(
        packed, closefd=False
    ) as writer:
        writer.write(rwd.LOG)
    parts = {kind: Part(kind, content) for kind, content in rwd.parts().items()}
    parts[4] = attrs.evolve(parts[4], packed=packed.getvalue())
    assert "log can't be decompressed" in refused(rewind, tmp_path, rwd.raw([*parts.values()]))


@pytest.mark.parametrize(
    "name",
    [
        "../../../../etc/passwd",
        f"../{HASH}-rewind-run-x",
        f"{HASH}-rewind-run-../../x",
        f"{HASH}-rewind-run-{NAME}/..",
        f"{HASH}-rewind-run-",
        f"{HASH}-rewind-run-x\n",
        f"{HASH}-rewind-run-x\0",
        f"{HASH}-bank",
        f"{HASH.upper()}-rewind-run-x",
        f"{HASH}-rewind-run-" + "x" * 300,
        "",
        "/",
        7,
        None,
    ],
)
def test_names(store: Store, rewind: Rewind, tmp_path: Path, name: object) -> None:
    """No path is taken from a file."""
    before = everything(tmp_path)
    data = rwd.good(about=json.dumps({"name": name}).encode())
    assert "it does not say what it is" in refused(rewind, tmp_path, data)
    after = everything(tmp_path)
    assert {path for path in after if not path.startswith(("state", "f.rwd"))} == set(before)


@pytest.mark.parametrize("about", [b"", b"{", b"[]", b"[" * 4000, b"\xff", b"9" * 4000])
def test_about(store: Store, rewind: Rewind, tmp_path: Path, about: bytes) -> None:
    assert "it does not say what it is" in refused(rewind, tmp_path, rwd.good(about=about))


def test_links_are_not_followed(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    """Where the run is to be, somebody has put a link."""
    directory = state(tmp_path) / "imported"
    directory.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    for target in ("elsewhere", "nowhere"):
        (directory / rwd.STORE_NAME).symlink_to(tmp_path / target)
        result = rewind("import", str(rwd.write(tmp_path / "f.rwd", rwd.good())))
        assert result.status == 2 and result.err.count("\n") == 1
        assert not list((tmp_path / "elsewhere").iterdir())
        assert not (tmp_path / "nowhere").exists()
        (directory / rwd.STORE_NAME).unlink()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"name": "other"}, "the manifest is of other, and the run called"),
        ({"steps": 5}, "of different runs"),
        ({"end": 1 << 40}, "of different runs"),
        ({"drv": "/nix/store/../x.drv"}, "has what no run's has"),
        ({"drv": "--help"}, "has what no run's has"),
        ({"machine": "/etc/passwd"}, "has what no run's has"),
        ({"layers": ("/dev/zero",)}, "has what no run's has"),
        ({"seed": "\x1b[2J"}, "has what no run's has"),
        ({"cores": 0}, "has what no run's has"),
        ({"memory": 1 << 62}, "has what no run's has"),
        ({"epoch": -1}, "has what no run's has"),
    ],
)
def test_hostile_manifest(
    store: Store, rewind: Rewind, tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    data = rwd.good(manifest=rwd.manifest(**changes).to_cbor())
    assert why in refused(rewind, tmp_path, data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x9b" + b"\x7f" + b"\xff" * 7,  # an array of 2^63 - 1
        b"\xbb" + b"\x00\x00\x00\x10" + bytes(4),  # a map of 2^36
        b"\x5b" + b"\xff" * 8,  # bytes
        b"\x81" * 1000 + b"\x00",
        b"\xc2\x41\x01",  # a number of any size
        b"\xd8\x23\x63(a+",  # a pattern
        b"\x9f\xff",
        b"\xfb" + bytes(8),
        b"\x00\x00",
        b"\xa1\x61x",
        b"\x18",
    ],
)
def test_hostile_cbor(data: bytes) -> None:
    with pytest.raises(FormatError):
        check.cbor(data, "it")


def test_simple_cbor() -> None:
    check.cbor(rwd.manifest().to_cbor(), "it")
    check.cbor(cbor2.dumps([{}, [], "x" * 300, -5, 1 << 40, True, None, b"y"]), "it")


def _index(change: Callable[[dict[str, Any]], object]) -> bytes:
    """A trace with another index, which has its checksum."""
    data = traces.stored(traces.sample())
    offset, size, _, magic = struct.unpack("<QQ32s8s", data[-56:])
    index = cbor2.loads(data[offset : offset + size])
    change(index)
    packed = cbor2.dumps(index)
    digest = hashlib.sha256(packed).digest()
    return data[:offset] + packed + struct.pack("<QQ32s8s", offset, len(packed), digest, magic)


@pytest.mark.parametrize(
    ("trace", "why"),
    [
        (b"", "this is no trace"),
        (b"x" * 100, "this is no trace"),
        (_index(lambda index: index["frames"].pop()), "do not add up"),
        (_index(lambda index: index.update(end=[1, 21, 1 << 63, 5000])), "before its last record"),
        (_index(lambda index: index.update(end=[1, 21, 10, 5000])), "it ends before it starts"),
        (_index(lambda index: index.update(frames=2**70)), "the trace's index is damaged"),
        (_index(lambda index: index["frames"][0].__setitem__(2, 60 << 20)), "does not match"),
    ],
)
def test_hostile_trace(
    store: Store, rewind: Rewind, tmp_path: Path, trace: bytes, why: str
) -> None:
    assert why in refused(rewind, tmp_path, rwd.good(trace=trace))


def test_a_trace_that_goes_back_in_time(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    records = traces.sample()
    records[5], records[6] = records[6], records[5]
    data = rwd.good(trace=traces.stored(records))
    assert "at step 6: it goes back in time" in refused(rewind, tmp_path, data)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("places", b"{}"),
        ("places", b"[" * 100_000),
        ("places", b'{"frames": [{"pc": 1}], "looks": []}'),
        ("places", b'{"frames": [], "looks": [{"at": "x", "whole": true, "threads": []}]}'),
        ("sources", b'{"files": [["a", 5]]}'),
        ("sources", b"{"),
        ("bookmarks", b"{}"),
        ("bookmarks", b'{"format": "rewind-bookmarks", "version": 9}'),
    ],
)
def test_hostile_json(store: Store, rewind: Rewind, tmp_path: Path, kind: str, data: bytes) -> None:
    refused(rewind, tmp_path, rwd.good(**{kind: data}))


def test_places_that_make_no_sense(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    text = json.loads(rwd.parts()[archive.PLACES])
    text["looks"][0]["threads"][0]["stack"] = [99]
    said = refused(rewind, tmp_path, rwd.good(places=json.dumps(text).encode()))
    assert "a frame is missing" in said


# --- what may go wrong beside the file


def test_no_room(
    store: Store, rewind: Rewind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [Part(kind, content) for kind, content in rwd.parts().items() if kind <= 4]
    large = attrs.evolve(parts[3], size=3 << 30)
    monkeypatch.setattr(
        os, "statvfs", lambda _: attrs.make_class("Disk", ["f_bavail", "f_frsize"])(1 << 20, 1024)
    )
    said = refused(rewind, tmp_path, rwd.raw([*parts[:3], large]))
    assert "bytes, and 1,073,741,824 are free in" in said


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), Interrupted(2)])
def test_nothing_is_half_made(
    store: Store,
    rewind: Rewind,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    """A full disk, or Ctrl-C, when the trace is written."""

    def extract(self: Archive, entry: archive.Entry, target: Any) -> None:
        target.write(b"half")
        if entry.kind == archive.TRACE:
            raise error

    file = rwd.write(tmp_path / "f.rwd", rwd.good())
    with monkeypatch.context() as patch:
        patch.setattr(Archive, "extract", extract)
        result = rewind("import", str(file))
    assert result.status == (2 if isinstance(error, OSError) else 130)
    assert left(tmp_path) == []
    assert rewind("import", str(file)).status == 0


def test_what_was_killed_is_swept(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    half = state(tmp_path) / "imported" / ".new-x" / "run"
    half.mkdir(parents=True)
    (half / "trace").write_bytes(b"half")
    assert rewind("import", str(rwd.write(tmp_path / "f.rwd", rwd.good()))).status == 0
    assert left(tmp_path) == [rwd.STORE_NAME]


def test_hash(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    file = rwd.write(tmp_path / "f.rwd", rwd.good())
    wrong = "0" * 64
    result = rewind("import", str(file), "--hash", wrong)
    assert result.status == 2 and f"and not sha256:{'0' * 52}" in result.err
    right = result.err.split("has the hash ")[1].split(",")[0]
    assert rewind("import", str(file), "--hash", right).status == 0
    for text in ("x", "sha256:zz", "sha1-abc", ""):
        result = rewind("import", str(file), "--hash", text)
        assert result.status == 2 and "is no SHA-256" in result.err


def test_url(store: Store, rewind: Rewind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = rwd.write(tmp_path / "f.rwd", rwd.good())
    asked = []

    def prefetch(url: str, digest: str | None, most: int) -> tuple[str, Path]:
        asked.append((url, digest))
        return "x" * 52, file

    monkeypatch.setattr(nix, "prefetch", prefetch)
    result = rewind("import", "https://example.org/f.rwd", "--hash", "sha256:" + "0" * 52)
    assert result.status == 0
    assert result.err == f"rewind: fetched https://example.org/f.rwd: sha256:{'x' * 52}\n"
    assert asked == [("https://example.org/f.rwd", "0" * 52)]


# --- what makes it again


def test_without_trust_nothing_is_added(
    store: Store, rewind: Rewind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the store is left alone")

    monkeypatch.setattr(nix, "copy_from", never)
    file = rwd.write(tmp_path / "f.rwd", rwd.good(rwd.with_paths()))
    result = rewind("import", str(file))
    assert result.status == 0 and "--trust adds it to the store" in result.out


def test_trust_needs_something(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    said = refused(rewind, tmp_path, rwd.good(), "--trust")
    assert "rewind export --replayable puts it in" in said


def test_trust(
    store: Store, rewind: Rewind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nix is shown a binary cache, which it checks; what it does not take is no run."""
    seen: dict[str, str] = {}

    def copy(cache: Path, roots: list[Path]) -> None:
        seen.update({path.name: path.read_bytes().hex() for path in cache.iterdir()})
        narinfo = (cache / f"{'d' * 32}.narinfo").read_text()
        assert f"StorePath: {rwd.DRV}\n" in narinfo
        assert f"References: {'c' * 32}-job.json\n" in narinfo
        assert "Compression: zstd\nNarHash: sha256:" in narinfo
        raise nix.NixFailure("cannot add path: it lacks a signature by a trusted key", "")

    monkeypatch.setattr(nix, "copy_from", copy)
    file = rwd.write(tmp_path / "f.rwd", rwd.good(rwd.with_paths()))
    result = rewind("import", str(file), "--trust")
    assert result.status == 2 and "only a user whom Nix trusts can add them" in result.err
    assert len(seen) == 5 and left(tmp_path) == []


@pytest.mark.parametrize(
    "change",
    [
        {"drv": "/etc/passwd"},
        {"roots": ["/nix/store/../../etc"]},
        {"paths": []},
        {"paths": [{"path": "/nix/store/x", "references": [], "deriver": None, "ca": None}]},
    ],
)
def test_hostile_paths(
    store: Store, rewind: Rewind, tmp_path: Path, change: dict[str, Any]
) -> None:
    contents = rwd.with_paths()
    with contents[7].open() as stream:
        data = {**json.loads(stream.read()), **change}
    contents[7] = Content.of_bytes(archive.PATHS, json.dumps(data).encode())
    refused(rewind, tmp_path, rwd.good(contents))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("path", f"/nix/store/{'c' * 32}-x\nSig: x"),
        ("path", f"/nix/store/{'c' * 32}-../x"),
        ("references", ["../x"]),
        ("references", [f"{'c' * 32}-x y"]),
        ("deriver", f"{'c' * 32}-x\nCA: y"),
        ("ca", "text:sha256:x\nDeriver: y"),
    ],
)
def test_lines_that_a_narinfo_would_have(
    store: Store, rewind: Rewind, tmp_path: Path, field: str, value: object
) -> None:
    contents = rwd.with_paths()
    with contents[7].open() as stream:
        data = json.loads(stream.read())
    data["paths"][0][field] = value
    contents[7] = Content.of_bytes(archive.PATHS, json.dumps(data).encode())
    refused(rewind, tmp_path, rwd.good(contents))


def test_more_nars_than_paths(store: Store, rewind: Rewind, tmp_path: Path) -> None:
    data = rwd.good([*rwd.with_paths(), Content.of_bytes(archive.NAR, b"three")])
    assert "more or fewer NARs" in refused(rewind, tmp_path, data, "--trust")
