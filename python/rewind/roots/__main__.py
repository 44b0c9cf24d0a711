"""``python -m rewind.roots SOURCE OUT MKFS``: the image of a root; see `rewind.roots`.

Exit status: 0, or 2 with a line that begins with ``rewind:`` and says why there is none.
"""

import sys
from pathlib import Path

from rewind.roots import RootError, make


def main() -> int:
    """Do what the command line says; the exit status."""
    if len(sys.argv) != 4:
        print("usage: python -m rewind.roots SOURCE OUT MKFS", file=sys.stderr)
        return 2
    source, out = map(Path, sys.argv[1:3])
    try:
        make(source, out, sys.argv[3])
    except RootError as error:
        print(f"rewind: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
