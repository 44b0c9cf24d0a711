"""make_initrd.py OUT FILE...: an initramfs of programs, each in its root by its own name."""

import sys
from pathlib import Path


def member(name: str, mode: int, data: bytes) -> bytes:
    """An entry of a cpio archive in the "newc" format (Documentation/driver-api/early-userspace).

    A magic and thirteen numbers of eight hexadecimal digits, then name and data, each padded to
    four bytes.
    """
    numbers = [0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
    head = "070701" + "".join(f"{number:08x}" for number in numbers) + name + "\0"
    return pad(head.encode()) + pad(data)


def pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def main(out: Path, *programs: Path) -> None:
    members = [member(path.name, 0o100755, path.read_bytes()) for path in programs]
    out.write_bytes(b"".join(members) + member("TRAILER!!!", 0, b""))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
