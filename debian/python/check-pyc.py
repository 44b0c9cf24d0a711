"""Fails if a compiled file below a directory is not valid whatever its source's time (PEP 552)."""

import pathlib
import sys

UNCHECKED_HASH = (1).to_bytes(4, "little")

bad = [
    path
    for path in pathlib.Path(sys.argv[1]).rglob("*.pyc")
    if path.read_bytes()[4:8] != UNCHECKED_HASH
]
for path in bad:
    print(f"{path}: compiled by time", file=sys.stderr)
sys.exit(1 if bad else 0)
