"""Time spans in words."""

UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""Those of time spans, in ns."""


def span(ns: int) -> str:
    """A time span that is given in ns, in the largest unit in which it is a short number."""
    for unit, size in reversed(UNITS.items()):
        if ns >= size and ns * 1000 % size == 0:
            return f"{ns / size:,.3f}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{ns:,} ns"
