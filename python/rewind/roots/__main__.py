"""``python -m rewind.roots SOURCE OUT``: the image of a root; see `rewind.roots`.

Exit status: 0, or 2 with a line that begins with ``rewind:`` and says why there is none.
"""

import os
import sys
from pathlib import Path

from rewind.roots import RootError, make


def main() -> int:
    """Do what the command line says; the exit status."""
    if len(sys.argv) != 3:
        print("usage: python -m rewind.roots SOURCE OUT", file=sys.stderr)
        return 2
    source, out = map(Path, sys.argv[1:])
    try:
        make(source, out, os.environ.get("REWIND_MKFS_EROFS", "mkfs.erofs"))
    except RootError as error:
        print(f"rewind: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
