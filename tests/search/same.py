"""Is the run in a manifest what a search's report says of one of its two runs?"""

import sys
from pathlib import Path

import cbor2

side, report, manifest = sys.argv[1], *(
    cbor2.loads(Path(path).read_bytes()) for path in sys.argv[2:]
)
said = {name: report[side][name] for name in ("outcome", "outputs", "steps")}
made = {name: manifest[name] for name in said}
if made != said:
    sys.exit(f"the {side} run came to {made}, and in the search to {said}")
print(f"the {side} run is the search's: {made['outcome']}, {made['steps']} steps")
