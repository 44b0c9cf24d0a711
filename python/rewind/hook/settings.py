"""The hook's settings: a JSON file, ``/etc/rewind/hook.json`` unless said otherwise.

All of its keys can be left out::

    {
      "queue": "/var/lib/rewind/hook",   directory of the queue
      "names": ["bank-*"],               derivations whose name (without the hash) fits one pattern,
      "attribute": "rewindHook",         that set this attribute to "record" or "check",
      "all": false,                      or all of them
      "action": "record",                what is done: "record", or "check", which records as well
      "schedules": 64,                   how many schedules a check tries
      "push": null,                      a store's URL that runs and reports are copied to
      "sign": null,                      a file with the secret key that they are signed with before
      "attempts": 5                      how often something is tried that fails
    }
"""

import fnmatch
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DEFAULT = Path("/etc/rewind/hook.json")
ACTIONS = ("record", "check")

_KEYS: Mapping[str, tuple[type, ...]] = {
    "queue": (str,),
    "names": (list,),
    "attribute": (str,),
    "all": (bool,),
    "action": (str,),
    "schedules": (int,),
    "push": (str, type(None)),
    "sign": (str, type(None)),
    "attempts": (int,),
}


class SettingsError(Exception):
    """The settings can't be read; the text is one sentence."""


class Settings:
    """What is in a settings file. Without attrs: the hook is to start at once."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        for key, value in data.items():
            if key not in _KEYS:
                raise SettingsError(f"{key} is no setting: there are {', '.join(_KEYS)}")
            # A bool is an int.
            if not isinstance(value, _KEYS[key]) or (key != "all" and isinstance(value, bool)):
                raise SettingsError(f"the setting {key} can't be {value!r}")
        self.queue = Path(data.get("queue", "/var/lib/rewind/hook"))
        self.names: list[str] = data.get("names", [])
        self.attribute: str = data.get("attribute", "rewindHook")
        self.all: bool = data.get("all", False)
        self.action: str = data.get("action", "record")
        self.schedules: int = data.get("schedules", 64)
        self.push: str | None = data.get("push")
        sign = data.get("sign")
        self.sign = None if sign is None else Path(sign)
        self.attempts: int = data.get("attempts", 5)
        if not all(isinstance(name, str) for name in self.names):
            raise SettingsError("the setting names is a list of patterns")
        if self.action not in ACTIONS:
            raise SettingsError(f"the setting action is {' or '.join(ACTIONS)}, not {self.action}")
        if not self.queue.is_absolute():
            raise SettingsError("the setting queue is an absolute path")
        if self.sign is not None and not self.sign.is_absolute():
            raise SettingsError("the setting sign is an absolute path")
        if self.schedules < 1 or self.attempts < 1:
            raise SettingsError("the settings schedules and attempts are at least 1")

    @classmethod
    def load(cls, path: Path | None = None) -> "Settings":
        """Those of *path*, or of where they are by default, if there are any.

        :raises SettingsError: if they can't be read.
        """
        said = path or (Path(os.environ["REWIND_HOOK"]) if os.environ.get("REWIND_HOOK") else None)
        try:
            data = json.loads((said or DEFAULT).read_bytes())
        except FileNotFoundError:
            if said is not None:
                raise SettingsError(f"there is no {said}") from None
            data = {}
        except (OSError, ValueError, RecursionError) as error:
            raise SettingsError(f"{said or DEFAULT} can't be read: {error}") from None
        if not isinstance(data, dict):
            raise SettingsError(f"{said or DEFAULT} is no JSON object")
        return cls(data)

    def wanted(self, drv: Path) -> str | None:
        """What is to be done with what *drv* has built; None for nothing.

        What rewind itself makes is never wanted.

        :raises OSError: if *drv* can't be read, and its attributes matter.
        """
        name = drv.name.partition("-")[2].removesuffix(".drv")
        if name.startswith("rewind-"):
            return None
        if self.all or any(fnmatch.fnmatchcase(name, pattern) for pattern in self.names):
            return self.action
        value = attribute(drv.read_text(errors="replace"), self.attribute)
        return value if value in ACTIONS else None


def attribute(drv: str, name: str) -> str | None:
    """The attribute *name* of the derivation with the text *drv*; None if it has none.

    The text is read as far as that takes: ("name","value") of the environment, or what
    __structuredAttrs makes of it, JSON in a string.
    """
    found = re.search(rf'\("{re.escape(name)}","((?:[^"\\]|\\.)*)"\)', drv)
    if found is not None:
        return found[1]
    found = re.search(rf'\\"{re.escape(name)}\\":\\"([a-z]*)\\"', drv)
    return found[1] if found is not None else None
