"""That a settings file says what the hook does without one: settings.py SETTINGS-MODULE FILE."""

import importlib.util
import json
import sys
from pathlib import Path


def main(module: str, file: str) -> None:
    """Exit with a sentence if it does not."""
    spec = importlib.util.spec_from_file_location("settings", module)
    assert spec is not None and spec.loader is not None
    settings = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(settings)
    said, own = settings.Settings.load(Path(file)), settings.Settings({})
    if vars(said) != vars(own):
        sys.exit(f"the module says {vars(said)}, the hook {vars(own)}")
    keys = json.loads(Path(file).read_bytes()).keys()
    if keys != vars(own).keys():
        sys.exit(f"the module has {sorted(keys)}, the hook {sorted(vars(own))}")


if __name__ == "__main__":
    main(*sys.argv[1:])
