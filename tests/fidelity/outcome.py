"""Is a run's outcome the one in $expected?"""

import json
import os
import sys
from pathlib import Path

import cbor2

manifest = cbor2.loads(Path(sys.argv[1]).read_bytes())
expected = json.loads(os.environ["expected"])
if manifest["outcome"] != expected:
    sys.exit(f"the outcome is {manifest['outcome']}, not {expected}")
print(f"{manifest['outcome']}, {manifest['steps']} steps")
