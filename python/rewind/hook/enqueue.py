"""``rewind-post-build-hook``: what nix.conf's ``post-build-hook`` is to name.

Nix starts it after every build, with DRV_PATH and OUT_PATHS, and waits. Were it to fail, the build
would; so whatever goes wrong is said on stderr, which Nix shows, and no reason to.
"""

import os
import sys
from pathlib import Path

from rewind.hook.queue import Queue
from rewind.hook.settings import Settings, SettingsError


def main() -> int:
    """The entry point."""
    drv = os.environ.get("DRV_PATH")
    if not drv:
        sys.stderr.write(
            "rewind-post-build-hook: this is for Nix to start, as post-build-hook in nix.conf:"
            " DRV_PATH is not set\n"
        )
        return 2
    try:
        settings = Settings.load()
        action = settings.wanted(Path(drv))
        if action is not None:
            Queue(settings.queue).add(Path(drv), os.environ.get("OUT_PATHS", "").split(), action)
    except SettingsError as error:
        sys.stderr.write(f"rewind-post-build-hook: {drv} was not queued: {error}\n")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"rewind-post-build-hook: {drv} was not queued: {where}{error.strerror}\n")
    return 0
