"""``rewind events``: what a run's programs did."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs
import click

from rewind.analysis import render
from rewind.analysis.render import Block, Lines
from rewind.cli import parallel, params, places
from rewind.cli.errors import Failure
from rewind.cli.output import warn
from rewind.cli.runs import Run
from rewind.formats import FormatError, trace
from rewind.formats.schedule import Position
from rewind.formats.trace import TraceReader
from rewind.travel.bookmarks import Bookmark, Bookmarks

MOST_PROCESSES = 4


def step_range(
    reader: TraceReader, first: Position | None, last: Position | None
) -> tuple[int, int]:
    """The steps of the records that were taken from *first* on, up to *last*.

    :raises Failure: if the run does not get as far as *first*.
    """
    steps = reader.steps
    for position in (first, last):
        if position is not None and position.step >= max(steps, 1):
            raise Failure(f"there is no step {position.step:,}: the run has {steps:,}")
    begin = 0 if first is None else first.step
    if first is not None and first.offset:
        begin = _after(reader, first, 0)
    end = steps - 1 if last is None else last.step
    if last is not None and last.offset:
        end = _after(reader, last, 1) - 1
    return begin, end


def check_position(reader: TraceReader, position: Position) -> None:
    """See that a run gets as far as *position*.

    :raises Failure: if it does not.
    """
    step_range(reader, None, Position(position.step))
    (record,) = reader.records(position.step, position.step)
    left = reader.duration - record.time
    if position.offset > left:
        raise Failure(
            f"there is no {position}: the run ends {left:,} instructions after step"
            f" {position.step:,}"
        )


def _after(reader: TraceReader, position: Position, more: int) -> int:
    """The first step that was taken *more* or more ns after *position*."""
    until = None
    for record in reader.records(position.step):
        if until is None:
            until = record.time + position.offset + more
        if record.time >= until:
            return record.step
    return reader.steps


def as_data(record: trace.Record) -> dict[str, Any]:
    """A record for a program to read."""
    data = attrs.asdict(record, recurse=False)
    head = {key: data.pop(key) for key in ("step", "time", "pid", "tid")}
    if isinstance(record, trace.Enter | trace.Exit):
        data["number"] = data["call"]
        data["call"] = render.CALLS[record.call].name
        data["details"] = [
            {
                "argument": detail.argument,
                "text": trace.text(detail.data),
                "cut": detail.cut,
            }
            for detail in record.details
        ]
    if isinstance(record, trace.Exit) and -4096 < record.value < 0:
        data["error"] = render.error_name(-record.value)
    return {**head, "type": record.type, **data}


def lines(
    reader: TraceReader, first: int, last: int, *, time: bool = False, wakes: bool = False
) -> Iterator[bytes]:
    """The steps from *first* to *last* as lines, in blocks."""
    render_frame = Lines(
        start=reader.end.start, steps=reader.steps, first=first, last=last, time=time, wakes=wakes
    )

    def work(number: int) -> tuple[bytes, bytes]:
        block = render_frame(reader.frame(number))
        return block.text, json.dumps((block.head, block.tail)).encode()

    return render.join(
        Block(text, *json.loads(border)) for text, border in _map(reader, first, last, work)
    )


def json_lines(reader: TraceReader, first: int, last: int) -> Iterator[bytes]:
    """The steps from *first* to *last* as JSON, an object a line, in blocks."""

    def work(number: int) -> tuple[bytes, bytes]:
        found = [
            json.dumps(as_data(record), ensure_ascii=False) + "\n"
            for record in trace.decode(reader.frame(number), reader.end.start)
            if first <= record.step <= last
        ]
        return "".join(found).encode(), b""

    return (text for text, _ in _map(reader, first, last, work))


def _map(
    reader: TraceReader, first: int, last: int, work: Callable[[int], tuple[bytes, bytes]]
) -> Iterator[tuple[bytes, bytes]]:
    if first > last:
        return iter(())
    numbers = range(reader.find(first), reader.find(last) + 1)
    return parallel.ordered_map(work, numbers, parallel.workers(MOST_PROCESSES))


@click.command("events")
@params.run_argument
@click.option("--from", "first", type=params.PositionType(), help="Begin there: STEP or STEP+N.")
@click.option("--to", "last", type=params.PositionType(), help="End there, included.")
@click.option("--time", is_flag=True, help="Show the guest's time, in ns since the job's start.")
@click.option("--wakes", is_flag=True, help="Show also who makes whom runnable.")
@params.json_option
def command(
    run: Run,
    first: Position | None,
    last: Position | None,
    time: bool,
    wakes: bool,
    as_json: bool,
) -> None:
    """What RUN's programs did: a line an event, its step first, then process/thread.

    A call and its result are one line if nothing happened in between; else the result has a
    line of its own, with an ellipsis. With --json, each line is an object, and none is left out.
    """
    with TraceReader(run.trace) as reader:
        begin, end = step_range(reader, first, last)
        noted = [one for one in bookmarks(run) if begin <= one.position.step <= end]
        sys.stdout.flush()
        for part in _between(begin, end, noted):
            if isinstance(part, Bookmark):
                sys.stdout.buffer.write(_bookmark(part, reader, as_json))
                continue
            sys.stdout.buffer.writelines(
                json_lines(reader, *part)
                if as_json
                else lines(reader, *part, time=time, wakes=wakes)
            )
        sys.stdout.buffer.flush()


def bookmarks(run: Run) -> list[Bookmark]:
    """The user's bookmarks of *run*; that they can't be read is no reason to do without the run."""
    try:
        return Bookmarks(places.bookmarks()).of(run.hash)
    except FormatError as error:
        warn(str(error))
        return []


def _between(
    begin: int, end: int, noted: Iterable[Bookmark]
) -> Iterator[tuple[int, int] | Bookmark]:
    """The steps from *begin* to *end* in ranges, and the bookmarks behind the steps they are at."""
    for bookmark in noted:
        if begin <= bookmark.position.step:
            yield begin, bookmark.position.step
            begin = bookmark.position.step + 1
        yield bookmark
    if begin <= end:
        yield begin, end


def _bookmark(bookmark: Bookmark, reader: TraceReader, as_json: bool) -> bytes:
    position = bookmark.position
    if as_json:
        data = {
            **{"step": position.step, "offset": position.offset},
            **{"type": "bookmark", "note": bookmark.note},
        }
        return json.dumps(data, ensure_ascii=False).encode() + b"\n"
    width = len(str(max(reader.steps - 1, 0)))
    offset = f"+{position.offset}  " if position.offset else ""
    return f"{position.step:>{width}}  * {offset}{render.plain(bookmark.note)}\n".encode()
