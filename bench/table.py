"""The table of figures."""

from collections.abc import Sequence

import attrs

_HEAD = ("what", "measured", "goal", "")


@attrs.frozen
class Figure:
    """A line of the table: *what* was *measured*, and whether it is as good as its *goal*.

    *met* is None if there is no goal.
    """

    what: str
    measured: str
    goal: str = ""
    met: bool | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """What stands in the columns."""
        verdict = {None: "", True: "met", False: "NOT MET"}[self.met]
        return (self.what, self.measured, self.goal, verdict)


def limited(
    what: str, value: float, goal: float, text: str, goal_text: str, note: str = ""
) -> Figure:
    """A figure whose *value*, as *text*, is to be *goal* at most."""
    return Figure(what, f"{text}{note}", f"at most {goal_text}", value <= goal)


def seconds(value: float) -> str:
    """A time, with three digits that count."""
    if value < 0.1:
        return f"{value * 1e3:.0f} ms"
    if value < 10:
        return f"{value:.2f} s"
    return f"{value:.0f} s" if value < 120 else f"{value / 60:.1f} min"


def megabytes(value: float) -> str:
    """A number of bytes."""
    if value < 1e5:
        return f"{value / 1e3:.0f} kB"
    return f"{value / 1e6:,.1f} MB" if value < 100e6 else f"{value / 1e6:,.0f} MB"


def plain(figures: Sequence[Figure]) -> str:
    """The table for a terminal."""
    return plain_grid(_HEAD, [figure.cells for figure in figures])


def markdown(figures: Sequence[Figure]) -> str:
    """The table for a document."""
    return markdown_grid(_HEAD, [figure.cells for figure in figures])


def plain_grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Any table for a terminal."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def markdown_grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Any table for a document."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  ", "| ") for line in lines)
