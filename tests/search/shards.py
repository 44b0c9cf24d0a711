"""Are the searches in the directories that are named the same, file by file?

They are of 1, 2, 3… shards, in that order. That a schedule of the first shard is all that was found
would say little.
"""

import sys
from pathlib import Path

import cbor2


def files(search: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in search.iterdir()}


searches = [Path(argument) for argument in sys.argv[1:]]
first = files(searches[0])
report = cbor2.loads(first["report.cbor"])
changed = [tried["number"] for tried in report["tried"] if tried["changed"]]
print(f"{len(report['tried']) - 1} schedules, another outcome under {changed}")
if report["verdict"] != "differs" or not {"failing.trace", "passing.trace"} <= set(first):
    sys.exit("nothing was found")
later = [count for count in range(2, len(searches) + 1) if (changed[0] - 1) % count]
if not later:
    sys.exit(f"schedule {changed[0]} is always the first shard's: choose another job")

for count, search in enumerate(searches[1:], 2):
    found = files(search)
    names = sorted(name for name in found | first if found.get(name) != first.get(name))
    if names:
        sys.exit(f"with {count} shards it is another search: {', '.join(names)}")
print(f"the same in {len(searches)} ways, though its first find is in a later one of {later} shards")
