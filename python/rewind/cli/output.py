"""What a person reads: numbers, tables, and where they go.

Answers go to stdout and progress to stderr, with colour if that is a terminal and ``NO_COLOR``
is not set.
"""

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console


def console(file: TextIO, *, wide: bool = False) -> "Console":
    """A console on *file* that changes nothing of a text but its colour.

    *wide*: lines are as long as they are, whatever the terminal's width.
    """
    # Imported here: it takes longer than many a command does.
    from rich.console import Console

    return Console(
        file=file,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
        width=100_000 if wide else None,
    )


def say(text: str = "") -> None:
    """A line of an answer."""
    sys.stdout.write(text + "\n")


def say_json(data: Any) -> None:
    """An answer for a program."""
    json.dump(data, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def warn(text: str) -> None:
    """A line for the person that is no part of the answer."""
    sys.stdout.flush()
    sys.stderr.write(f"rewind: {text}\n")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> None:
    """A table on stdout, on a terminal no wider than that; the columns in *right* are numbers."""
    from rich.table import Table

    out = console(sys.stdout, wide=True)
    width = shutil.get_terminal_size().columns if out.is_terminal else None
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for name in head:
        made.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    for row in rows:
        made.add_row(*row)
    with out.capture() as capture:
        out.print(made)
    first, *others = (line.rstrip()[:width] for line in capture.get().splitlines())
    bold = out.is_terminal and not out.no_color and not out.is_dumb_terminal
    say(f"\x1b[1m{first}\x1b[0m" if bold else first)
    for line in others:
        say(line)


def count(number: int, thing: str) -> str:
    """``1 step``, ``4,321 steps``."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def size(number: int) -> str:
    """A number of bytes: ``812 kB``, ``1.4 MB``."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if number >= unit:
            value = number / unit
            return f"{value:,.3g} {name}" if value < 1000 else f"{value:,.0f} {name}"
    return f"{number} bytes"


def duration(ns: int) -> str:
    """A time span that is given in ns, in seconds."""
    return f"{ns / 1e9:,.3f} s"
