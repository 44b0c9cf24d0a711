"""Measures rewind, and prints a table: what, measured, goal, and whether it is met.

Started in a checkout, by ``nix run .#bench`` or ``./nixw run .#bench``. Arguments choose parts;
without one, all are measured but ``setup``, which builds kernel and QEMU again, in a place of its
own (see bench/setup.py), ``host-races``, which starts the examples without rewind, again and
again for some minutes (bench/races.py), and ``examples``, which searches all of them with 64
schedules (bench/search.py). The exit status is 1 if a goal is not met.
"""

import argparse
import os
import sys
from pathlib import Path

from bench import races, search, setup, table
from bench.cost import CommandError, say
from bench.figures import PARTS
from bench.table import Figure


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
    parser.add_argument("--times", type=int, default=5, help="how often each is measured (5)")
    parser.add_argument(
        "--scratch", type=Path, default=Path("/var/tmp"), help="where setup has some GB of room"
    )
    options = parser.parse_args()
    unknown = sorted(set(options.parts) - {*PARTS, "host-races", "examples", "setup"})
    if unknown:
        parser.error(f"there is no part {unknown[0]}")
    if options.times < 1:
        parser.error("--times is 1 or more")
    if not Path("flake.nix").exists():
        parser.error("run me in a checkout of rewind")

    figures: list[Figure] = []
    failed = False
    for part in options.parts or PARTS:
        try:
            if part == "setup":
                figures += setup.measure(options.scratch)
            elif part == "host-races":
                figures += races.measure()
            elif part == "examples":
                figures += search.examples()
            else:
                figures += PARTS[part](options.times)
        except CommandError as error:
            failed = True
            say(f"{part} cannot be measured: {error}")
    load, cores = os.getloadavg()[0], os.cpu_count()
    print((table.markdown if options.markdown else table.plain)(figures))
    say(f"{cores} CPUs; at the end {load:.1f} processes wanted one")
    return int(failed or any(figure.met is False for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
