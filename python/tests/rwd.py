"""Makes ``.rwd`` files for tests, good ones and others."""

import hashlib
import io
import json
import struct
from pathlib import Path

import attrs
import zstandard

import traces
from rewind.formats.manifest import Manifest
from rewind.formats.schedule import Position
from rewind.inspect.answers import Frame, Task, Wait
from rewind.travel import archive, bookmarks, paths, places
from rewind.travel.archive import Content
from rewind.travel.bookmarks import Bookmark
from rewind.travel.paths import Paths, StorePath
from rewind.travel.places import Look, Thread
from test_manifest import MANIFEST

HASH = "1a" + "0" * 30
NAME = "bank-0.1.0"
STORE_NAME = f"{HASH}-rewind-run-{NAME}"
LOG = b"line\nmore\n"
SOURCE = "/build/source/bank.c"
DRV = f"/nix/store/{'d' * 32}-rewind-run-{NAME}.drv"


@attrs.frozen
class Part:
    """An entry as it is to stand in a file, whatever that means."""

    kind: int
    content: bytes
    packed: bytes | None = None
    size: int | None = None
    packed_size: int | None = None
    digest: bytes | None = None


def manifest(records: list[bytes] | None = None, **changes: object) -> Manifest:
    """That of the run whose trace `traces.stored` makes of *records*."""
    records = traces.sample() if records is None else records
    end = traces.ending(records)
    fields = {"name": NAME, "steps": len(records), "start": end.start, "end": end.time, **changes}
    return attrs.evolve(MANIFEST, **fields)


def looks() -> list[Look]:
    """Where two threads were."""
    inner = Frame(0x401234, "deposit", file=SOURCE, line=2, own=True, module="/build/bank")
    outer = Frame(0x401300, "work", file=SOURCE, line=3, own=True, module="/build/bank")
    library = Frame(0x7F0000, module="/nix/store/x/libc.so.6", address=0x100, why="it was stripped")
    waits = Wait(what="for the end of 2", call="wait4", arguments=(1, 2, 3, 4, 5, 6), who=(2,))
    return [
        Look(
            Position(8),
            True,
            (
                Thread(Task(1, 1, 0, "sh", "waits", waits), (library,)),
                Thread(Task(2, 2, 1, "make", "runs"), (library, inner, outer)),
            ),
        ),
        Look(Position(18), False, (Thread(Task(1, 1, 0, "sh", "runs"), (library, outer)),)),
    ]


def parts() -> dict[int, bytes]:
    """The contents of a small file, by kind."""
    return {
        archive.ABOUT: json.dumps({"name": STORE_NAME}, separators=(",", ":")).encode(),
        archive.MANIFEST: manifest().to_cbor(),
        archive.TRACE: traces.stored(traces.sample()),
        archive.LOG: LOG,
        archive.BOOKMARKS: bookmarks.dumps([Bookmark(Position(8), "the write")]),
        archive.PLACES: places.dumps(looks()),
        archive.SOURCES: places.dump_sources({SOURCE: "one\ntwo\nthree\n"}),
    }


def with_paths() -> list[Content]:
    """A file with what makes the run again, as far as a reader can tell."""
    other = f"/nix/store/{'c' * 32}-job.json"
    travelling = Paths(
        DRV, (DRV,), (StorePath(other, ()), StorePath(DRV, (other[len("/nix/store/") :],)))
    )
    return [
        *(Content.of_bytes(kind, data) for kind, data in parts().items()),
        Content.of_bytes(archive.PATHS, paths.dumps(travelling)),
        Content.of_bytes(archive.NAR, b"one"),
        Content.of_bytes(archive.NAR, b"another"),
    ]


def good(contents: list[Content] | None = None, **changes: bytes) -> bytes:
    """A good file; *changes* are other contents, by name."""
    if contents is None:
        data = parts()
        for name, content in changes.items():
            data[archive.NAMES.index(name) + 1] = content
        contents = [Content.of_bytes(kind, content) for kind, content in sorted(data.items())]
    target = io.BytesIO()
    archive.write(target, contents)
    return target.getvalue()


def raw(entries: list[Part], version: int = archive.VERSION, count: int | None = None) -> bytes:
    """A file of *entries*, in which all checksums are right that are not said to be wrong."""
    table, contents = b"", b""
    for part in entries:
        packed = (
            zstandard.ZstdCompressor().compress(part.content)
            if part.packed is None
            else part.packed
        )
        table += struct.pack(
            "<IIQQ32s",
            part.kind,
            0,
            len(packed) if part.packed_size is None else part.packed_size,
            len(part.content) if part.size is None else part.size,
            hashlib.sha256(part.content).digest() if part.digest is None else part.digest,
        )
        contents += packed
    head = struct.pack("<8sII", b"rwdfile\n", version, len(entries) if count is None else count)
    return head + table + hashlib.sha256(head + table).digest() + contents


def write(path: Path, data: bytes) -> Path:
    """*data* in the file *path*."""
    path.write_bytes(data)
    return path
