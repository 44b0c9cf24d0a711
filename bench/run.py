"""Measures rewind, and prints a table: what, measured, goal, and whether it is met.

Started in a checkout, by ``nix run .#bench`` or ``./nixw run .#bench``. Arguments choose parts;
without one, all are measured but ``setup``, which builds kernel and QEMU again, in a place of its
own (see bench/setup.py), ``host-races``, which starts the examples without rewind, again and
again for an hour (bench/races.py; ``--times N``: N runs each instead of 1,000), and ``examples``,
which searches all of them with 64 schedules by each strategy (bench/search.py). These two print a
table of their own. The exit status is 1 if a goal is not met.
"""

import argparse
import os
import sys
from pathlib import Path

from bench import races, search, setup, table
from bench.cost import CommandError, say
from bench.figures import PARTS
from bench.table import Figure

TIMES = 5


def main() -> int:
    """Measure what the command line asks for; the exit status."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"{', '.join(PARTS)}, host-races, examples or setup; default: all but those three",
    )
    parser.add_argument("--markdown", action="store_true", help="print the table for a document")
    parser.add_argument(
        "--strategy", action="append", help="examples: only by this one; it can be said again"
    )
    parser.add_argument(
        "--no-twins", action="store_true", help="examples: not those that are mended"
    )
    parser.add_argument(
        "--times", type=int, help="how often each is measured (5; host-races: 1,000)"
    )
    parser.add_argument(
        "--scratch", type=Path, default=Path("/var/tmp"), help="where setup has some GB of room"
    )
    options = parser.parse_args()
    unknown = sorted(set(options.parts) - {*PARTS, "host-races", "examples", "setup"})
    if unknown:
        parser.error(f"there is no part {unknown[0]}")
    if options.times is not None and options.times < 1:
        parser.error("--times is 1 or more")
    if not Path("flake.nix").exists():
        parser.error("run me in a checkout of rewind")

    grid = table.markdown_grid if options.markdown else table.plain_grid
    figures: list[Figure] = []
    failed = False
    for part in options.parts or PARTS:
        try:
            if part == "setup":
                figures += setup.measure(options.scratch)
            elif part == "host-races":
                print(grid(*races.measure(options.times or races.RUNS)), end="\n\n", flush=True)
            elif part == "examples":
                head, rows, met = search.examples(options.strategy, twins=not options.no_twins)
                print(grid(head, rows), end="\n\n", flush=True)
                figures += met
            else:
                figures += PARTS[part](options.times or TIMES)
        except CommandError as error:
            failed = True
            say(f"{part} cannot be measured: {error}")
    load, cores = os.getloadavg()[0], os.cpu_count()
    if figures:
        print((table.markdown if options.markdown else table.plain)(figures))
    say(f"{cores} CPUs; at the end {load:.1f} processes wanted one")
    return int(failed or any(figure.met is False for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
