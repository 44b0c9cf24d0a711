"""The file by which a plugin in QEMU is told what to do, and tells what it found.

Both have it mapped. It is written and read here while the machine does not run. It begins with a
magic and a version, and has what the plugin's own C structure of the same layout has.
"""

import ctypes
import mmap
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rewind.machine import MachineError
from rewind.machine.qemu import options


class PluginControl:
    """A plugin's control; a context manager. QEMU is started with `arguments` and `pass_fds`.

    :param plugin: the plugin's file.
    :param structure: the layout, with the fields magic, version, plugin_version, generation, taken.
    :param magic: what the file begins with.
    :param version: of the layout.
    :param error: what is raised if the plugin has not done as it was told.
    """

    def __init__(
        self,
        plugin: Path,
        structure: type[ctypes.Structure],
        *,
        magic: bytes,
        version: int,
        error: type[MachineError],
    ) -> None:
        self._plugin = plugin
        self._version = version
        self._error = error
        size = ctypes.sizeof(structure)
        self._file = os.memfd_create("rewind-control", os.MFD_CLOEXEC)
        os.ftruncate(self._file, size)
        self._map = mmap.mmap(self._file, size)
        self._control: Any = structure.from_buffer(self._map)
        self._control.magic = magic
        self._control.version = version

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments for QEMU."""
        control = f"/proc/self/fd/{self._file}"
        return ("-plugin", options(str(self._plugin), control=control))

    @property
    def pass_fds(self) -> tuple[int, ...]:
        """File descriptors that QEMU is to have."""
        return (self._file,)

    def _check_taken(self, what: str) -> None:
        """See that the plugin has taken what it was told last: *what* to do, in words."""
        found = int(self._control.plugin_version)
        if found != self._version:
            said = f"is of version {found}, and not {self._version}" if found else "was not loaded"
            raise self._error(f"the plugin {self._plugin} {said}")
        if self._control.taken != self._control.generation:
            raise self._error(f"the machine has not run since it was told what to {what}")

    def close(self) -> None:
        """Let go of the file; QEMU may still have it."""
        # The structure is a view of the mapping.
        del self._control
        self._map.close()
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
