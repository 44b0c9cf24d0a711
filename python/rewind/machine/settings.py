"""The machine's settings, as vm-configs/machine.nix writes them.

One JSON object, whose store path stands for the machine in a run's manifest. Keys that are not
fields of `Settings` are for others (the kernel's debug information, for one) and are left alone.
"""

import json
from pathlib import Path
from typing import Any, Self

import attrs

from rewind.machine import MachineError


@attrs.frozen(kw_only=True)
class Settings:
    """What does not change from one run to the next."""

    qemu: Path
    """The program qemu-system-x86_64."""
    firmware: Path
    """64 KiB that enter the kernel as the boot block says (vm-configs/firmware)."""
    kernel: Path
    """The kernel as an ELF file with a PVH entry."""
    initrd: Path
    machine: str
    """The argument of -M; the memory backend is added to it."""
    cpu: str
    """The argument of -cpu."""
    kernel_params: tuple[str, ...]

    def guest(self) -> dict[str, object]:
        """What decides how the guest boots: all but QEMU, of which every build does the same."""
        return {
            "firmware": str(self.firmware),
            "kernel": str(self.kernel),
            "initrd": str(self.initrd),
            "machine": self.machine,
            "cpu": self.cpu,
            "kernelParams": list(self.kernel_params),
        }

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the settings in the file *path*.

        :raises MachineError: if they can't be read, or something is missing in them.
        """
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise MachineError(f"the machine's settings can't be read: {path}: {error}") from None

        def field(name: str, kind: type) -> Any:
            value = data.get(name) if isinstance(data, dict) else None
            if not isinstance(value, kind):
                raise MachineError(
                    f"the machine's settings are damaged: {path}: {name} is not what it should be"
                )
            return value

        return cls(
            qemu=Path(field("qemu", str)),
            firmware=Path(field("firmware", str)),
            kernel=Path(field("kernel", str)),
            initrd=Path(field("initrd", str)),
            machine=field("machine", str),
            cpu=field("cpu", str),
            kernel_params=tuple(map(str, field("kernelParams", list))),
        )
