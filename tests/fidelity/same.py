"""Compares the NAR hashes of a run's outputs with those of what Nix built."""

import json
import os
import sys
from pathlib import Path

import cbor2

attributes = json.loads(Path(os.environ["NIX_ATTRS_JSON_FILE"]).read_text())
run = Path(attributes["run"])
manifest = cbor2.loads((run / "manifest.cbor").read_bytes())
if manifest["outcome"] != {"kind": "exited", "value": 0}:
    sys.stderr.write((run / "log").read_text(errors="replace")[-4000:])
    sys.exit(f"in the machine the build ended as {manifest['outcome']}")
if set(manifest["outputs"]) != set(attributes["built"]):
    sys.exit(f"the machine made the outputs {sorted(manifest['outputs'])}")
bad = 0
for name, path in attributes["built"].items():
    (entry,) = (e for e in attributes[f"output-{name}"] if e["path"] == path)
    output = manifest["outputs"][name]
    if output["path"] != path:
        sys.exit(f"output {name}: the machine made {output['path']}, not {path}")
    same = output["nar_hash"] == entry["narHash"] and output["nar_size"] == entry["narSize"]
    print(f"{name}: {entry['narHash']} {'same' if same else 'DIFFERS: ' + output['nar_hash']}")
    bad += not same
sys.exit(1 if bad else 0)
