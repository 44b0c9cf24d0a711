"""Feeds ``rewind import`` with damaged and hostile ``.rwd`` files, and reads what it took.

    cd python/tests && python3 fuzz_rwd.py --seconds 600 [--seed N]

A case is a file of a small corpus that is changed: bytes of it, or what is in it, with all
checksums made right again, so that the reader gets to the depth of things. Whatever comes of a
case, it has to be a sentence and the status 2, and nothing left; or a run that all commands read
with an answer or a sentence. With one seed the cases are the same; one that fails is kept in a
file.
"""

import argparse
import contextlib
import io
import itertools
import json
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs

import rwd
import traces
from rewind import cli
from rewind.cli import nix, recording
from rewind.cli.recording import Options
from rewind.formats.trace import End, TraceWriter
from rewind.travel import archive
from rwd import Part

SECONDS = 20
"""What a case may take."""
MEMORY = 3 << 30
"""Bytes of addresses that all of it may have."""
COMMANDS = (
    ["ls"],
    ["show", rwd.NAME],
    ["log", rwd.NAME, "--steps"],
    ["events", rwd.NAME, "--wakes"],
    ["ps", rwd.NAME],
    ["ps", rwd.NAME, "8", "--all"],
    ["threads", rwd.NAME, "--all"],
    ["threads", rwd.NAME, "8"],
    ["where", rwd.NAME, "8"],
    ["where", rwd.NAME, "9+20", "--tid", "2"],
    ["compare", rwd.NAME, rwd.NAME],
    ["compare", rwd.NAME, rwd.NAME, "--program", "make"],
    ["bookmark", rwd.NAME],
    ["export", rwd.NAME, "-o", "again.rwd"],
)
"""How a run that was taken is read."""
_NUMBERS = (0, 1, 7, 255, 2**15, 2**31 - 1, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
_TEXTS = ("", "/", "..", "../../x", "\0", "\x1b[2J", "x" * 5000, "/nix/store/x", "é", "1+1")


class Found(Exception):
    """A case shows something that must not be."""


def corpus() -> list[dict[int, bytes]]:
    """The contents of good files, by kind."""
    woken = rwd.parts() | {
        archive.MANIFEST: rwd.manifest(traces.woken()).to_cbor(),
        archive.TRACE: traces.stored(traces.woken()),
    }
    contents: dict[int, bytes] = {}
    for content in rwd.with_paths():
        with content.open() as stream:
            contents[content.kind] = stream.read()
    small = {kind: data for kind, data in rwd.parts().items() if kind in archive.NEEDED}
    return [rwd.parts(), woken, small, contents]


# --- mutations


def bytes_changed(chance: random.Random, data: bytes) -> bytes:
    """*data* with some bytes that are others, more, or missing."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(6):
            case 0:
                changed[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del changed[at : at + chance.choice((1, 4, 100))]
            case 2:
                changed[at:at] = chance.randbytes(chance.choice((1, 4, 100)))
            case 3:
                size = chance.choice((1, 2, 4, 8))
                changed[at : at + size] = (chance.choice(_NUMBERS) % 256**size).to_bytes(
                    size, chance.choice(("little", "big"))
                )
            case 4:
                other = chance.randrange(len(changed) + 1)
                changed[at : at + 16] = changed[other : other + 16]
            case 5 if len(changed) > at:
                changed[at] ^= 1 << chance.randrange(8)
    return bytes(changed)


def value_changed(chance: random.Random, value: Any) -> Any:
    """*value*, as JSON has it, with something in it that is another."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(sorted(value))
        return {**value, key: value_changed(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        kept = value[:at] if chance.random() < 0.05 else [*value[:at], *value[at + 1 :]]
        return kept if chance.random() < 0.1 else [
            *value[:at], value_changed(chance, value[at]), *value[at + 1 :]
        ]  # fmt: skip
    return chance.choice(
        (None, True, [], {}, [[]], -1, 1.5, chance.choice(_NUMBERS), chance.choice(_TEXTS))
    )


def trace_changed(chance: random.Random) -> bytes:
    """A trace with records that are others, whole in all its layers."""
    records = list(chance.choice((traces.sample, traces.woken))())
    for _ in range(chance.choice((1, 1, 3))):
        at = chance.randrange(len(records))
        match chance.randrange(5):
            case 0:
                records[at] = _record_changed(chance, records[at])
            case 1:
                del records[at]
            case 2:
                records.insert(at, chance.choice(records))
            case 3:
                records[at] = _record_changed(chance, chance.choice(records))
            case 4:
                chance.shuffle(records)
        if not records:
            break
    if chance.random() < 0.8:
        records = _in_order(records)
    if chance.random() < 0.8:
        return traces.stored(records)
    out = io.BytesIO()
    writer = TraceWriter(out)
    for frame in traces.frames(records):
        writer.add(frame)
    start = chance.choice((0, traces.START, *_NUMBERS))
    with contextlib.suppress(Exception):
        writer.finish(End(chance.choice((1, 2, 3)), len(records), 2**63 - 1, start))
    return out.getvalue()


def _record_changed(chance: random.Random, record: bytes) -> bytes:
    """A record with other numbers, of the size that it says to have."""
    changed = bytearray(record)
    fields = (
        (12, 4),
        (16, 4),
        (20, 4),
        (10, 1),
        (11, 1),
        *((at, 8) for at in range(24, len(record), 8)),
    )
    at, size = chance.choice(fields)
    changed[at : at + size] = (chance.choice(_NUMBERS) % 256**size).to_bytes(size, "little")
    if chance.random() < 0.3:
        changed += chance.randbytes(chance.choice((1, 8, 64)))
    changed = changed[: max(24, len(changed))]
    struct.pack_into("<H", changed, 8, len(changed) - 8)
    return bytes(changed)


def _in_order(records: list[bytes]) -> list[bytes]:
    times = sorted(struct.unpack_from("<Q", record)[0] for record in records)
    return [
        struct.pack("<Q", time) + record[8:] for time, record in zip(times, records, strict=True)
    ]


def case(chance: random.Random) -> bytes:
    """A file."""
    contents = dict(chance.choice(corpus()))
    kind = chance.choice(sorted(contents))
    match chance.randrange(6):
        case 0:
            return bytes_changed(chance, _whole(contents))
        case 1:
            part = Part(kind, contents[kind])
            field = chance.choice(("kind", "size", "packed_size", "packed", "digest"))
            bad: Any = chance.choice(_NUMBERS)
            if field == "kind":
                bad %= 2**32
            elif field == "digest":
                bad = chance.randbytes(32)
            elif field == "packed":
                bad = chance.randbytes(chance.choice((0, 1, 4, 100)))
            parts = [Part(one, data) for one, data in contents.items() if one != kind]
            return rwd.raw(
                sorted([*parts, attrs.evolve(part, **{field: bad})], key=lambda p: p.kind)
            )
        case 2:
            contents[kind] = bytes_changed(chance, contents[kind])
        case 3:
            contents[archive.MANIFEST] = bytes_changed(chance, contents[archive.MANIFEST])
        case 4:
            kinds = [one for one in (1, 5, 6, 7, 8) if one in contents]
            one = chance.choice(kinds)
            value = json.loads(contents[one])
            for _ in range(chance.choice((1, 1, 3))):
                value = value_changed(chance, value)
            contents[one] = json.dumps(value).encode()
        case 5:
            contents[archive.TRACE] = trace_changed(chance)
            _fit(contents)
    return _whole(contents)


def _fit(contents: dict[int, bytes]) -> None:
    """Have the manifest say what the trace does, so that nobody stops there."""
    from rewind.formats.manifest import Manifest
    from rewind.formats.trace import TraceReader

    with tempfile.NamedTemporaryFile() as file:
        file.write(contents[archive.TRACE])
        file.flush()
        with contextlib.suppress(Exception), TraceReader(Path(file.name)) as reader:
            made = Manifest.from_cbor(contents[archive.MANIFEST])
            end = reader.end
            contents[archive.MANIFEST] = attrs.evolve(
                made, steps=end.steps, start=end.start, end=end.time
            ).to_cbor()


def _whole(contents: dict[int, bytes]) -> bytes:
    return rwd.raw([Part(kind, data) for kind, data in sorted(contents.items())])


# --- what has to hold


def call(*words: str) -> tuple[int, str, str]:
    """``rewind WORDS``: status, stdout and stderr."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    err = io.StringIO()
    before = sys.argv, sys.stdout, sys.stderr
    try:
        sys.argv, sys.stdout, sys.stderr = ["rewind", *words], out, err
        status = cli.run()
        out.flush()
    finally:
        sys.argv, sys.stdout, sys.stderr = before
    return status, out.buffer.getvalue().decode("utf-8", "replace"), err.getvalue()


def _late(*_: object) -> None:
    raise Found(f"it takes more than {SECONDS} s")


def check(data: bytes, directory: Path) -> bool:
    """See what becomes of the file *data*; whether it was taken.

    :raises Found: if that is not as it should be.
    """
    file = directory / "case.rwd"
    file.write_bytes(data)
    (directory / "state").mkdir()
    outside = _files(directory)
    signal.alarm(SECONDS)
    try:
        status, out, err = call("import", str(file))
        _is_good(["import"], status, out, err)
        left = [path.name for path in (directory / "state/rewind/imported").iterdir()]
        if status == 2 and sorted(left) not in ([], ["lock"]):
            raise Found(f"it was refused, and left {left}")
        if status == 0:
            if sorted(left) != [rwd.STORE_NAME, "lock"]:
                # It may have another name, under which it can't be looked for.
                return True
            for words in COMMANDS:
                _is_good(words, *call(*words))
        (directory / "again.rwd").unlink(missing_ok=True)
        if new := _files(directory) - outside:
            raise Found(f"there are new files: {sorted(map(str, new))}")
        return status == 0
    finally:
        signal.alarm(0)


def _is_good(words: list[str], status: int, out: str, err: str) -> None:
    if status not in (0, 1, 2):
        raise Found(f"{words}: the status {status}")
    if status == 2 and (not err.startswith("rewind: ") or err.count("\n") > 2):
        raise Found(f"{words}: {err!r} is no sentence")
    if "\x1b" in err or ("\x1b" in out and words[0] != "log"):
        raise Found(f"{words}: escape sequences in {out + err!r}")


def _files(directory: Path) -> set[Path]:
    return {
        path for path in directory.rglob("*") if not path.is_relative_to(directory / "state/rewind")
    }


@contextlib.contextmanager
def world() -> Iterator[Path]:
    """An empty store, and a directory to work in, for as long as the ``with`` lasts."""
    with (
        tempfile.TemporaryDirectory(prefix="rewind-fuzz-") as name,
        contextlib.ExitStack() as stack,
    ):
        directory = Path(name)
        (directory / "store").mkdir()
        before = os.environ.copy()
        kept: list[tuple[Any, str, Any]] = [
            (nix, "STORE", directory / "store"),
            (nix, "valid", lambda paths: []),
            (nix, "path_info", lambda paths: {}),
            (recording, "defaults", lambda: Options.of(rwd.manifest())),
        ]
        for where, what, new in kept:
            stack.callback(setattr, where, what, getattr(where, what))
            setattr(where, what, new)
        os.environ["XDG_STATE_HOME"] = str(directory / "state")
        here = Path.cwd()
        os.chdir(directory)
        handler = signal.signal(signal.SIGALRM, _late)
        try:
            yield directory
        finally:
            signal.signal(signal.SIGALRM, handler)
            os.chdir(here)
            os.environ.clear()
            os.environ.update(before)


def fuzz(seed: int, enough: Callable[[int], bool], out: Path | None = None) -> tuple[int, int]:
    """Try cases until there were *enough*; how many, and how many of them were taken.

    :param out: where a case goes that fails.
    :raises Found: at the first that fails.
    """
    taken = 0
    for number in itertools.count():
        if enough(number):
            return number, taken
        data = case(random.Random(f"{seed}/{number}"))
        with world() as directory:
            try:
                taken += check(data, directory)
            except BaseException as error:
                if out is not None:
                    out.write_bytes(data)
                raise Found(f"case {number} of seed {seed}: {error!r}") from error
    raise AssertionError


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    end = time.monotonic() + options.seconds
    out = Path(f"rwd-case-{options.seed}.rwd").absolute()
    try:
        cases, taken = fuzz(options.seed, lambda _: time.monotonic() >= end, out)
    except Found:
        traceback.print_exc()
        print(f"the case is in {out}", file=sys.stderr)
        return 1
    print(f"{cases:,} cases, {taken:,} of them taken; nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
