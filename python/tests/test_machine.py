"""The machine: settings, boot block, memory of a snapshot."""

import json
import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_qemu import STATE, pvh_kernel
from rewind.machine import MachineError, boot, qemu
from rewind.machine.settings import Settings
from rewind.machine.snapshot import Snapshot, pack, unpack
from rewind.machine.take import forget_host_time

MIB = 1 << 20
GIB = 1 << 30

SETTINGS: dict[str, Any] = {
    **{name: f"/nix/store/{name}" for name in ("qemu", "firmware", "kernel", "initrd")},
    "machine": "microvm,rtc=off",
    "cpu": "Haswell",
    "kernelParams": ["quiet"],
    "debugInfo": "of no concern here",
}


@pytest.fixture
def memory() -> Iterator[int]:
    """A machine's memory of 64 MiB."""
    fd = os.memfd_create("test")
    os.ftruncate(fd, 64 * MIB)
    yield fd
    os.close(fd)


def test_settings(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(SETTINGS))
    settings = Settings.load(path)
    assert settings.qemu == Path("/nix/store/qemu")
    assert settings.kernel_params == ("quiet",)
    assert "qemu" not in settings.guest()
    assert settings.guest()["kernelParams"] == ["quiet"]


@pytest.mark.parametrize("name", ["qemu", "firmware", "kernel", "initrd", "cpu", "kernelParams"])
def test_settings_that_are_not_whole(tmp_path: Path, name: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(SETTINGS | {name: None}))
    with pytest.raises(MachineError, match=f"damaged: .*: {name} is not what it should be"):
        Settings.load(path)
    path.write_text("{")
    with pytest.raises(MachineError, match="can't be read"):
        Settings.load(path)


@pytest.mark.parametrize(
    ("memory", "pieces"),
    [
        (256 * MIB, [(0, 640 << 10), (MIB, 255 * MIB)]),
        (3 * GIB, [(0, 640 << 10), (MIB, 3 * GIB - MIB)]),
        (5 * GIB, [(0, 640 << 10), (MIB, 3 * GIB - MIB), (4 * GIB, 2 * GIB)]),
    ],
)
def test_boot_block(memory: int, pieces: list[tuple[int, int]]) -> None:
    """Read it as firmware and kernel do: from addresses of guest memory."""
    block = boot.block(
        entry=0x1000000, memory=memory, initrd_size=1234, command_line=["quiet", "x=y"]
    )

    def at(address: int, layout: str) -> tuple[Any, ...]:
        return struct.unpack_from(layout, block, address - boot.BLOCK)

    magic, entry, info = at(boot.BLOCK, "<4sII")
    assert (magic, entry) == (b"RWBT", 0x1000000)
    # struct hvm_start_info
    magic, version, flags, modules, module, line, rsdp, table, entries, reserved = at(
        info, "<IIIIQQQQII"
    )
    assert (magic, version, flags, rsdp, reserved) == (0x336EC578, 1, 0, 0, 0)
    assert modules == 1
    assert at(module, "<QQQQ") == (boot.INITRD, 1234, 0, 0)
    assert block[line - boot.BLOCK :] == b"quiet x=y\0"
    found = [at(table + 24 * number, "<QQII") for number in range(entries)]
    assert found == [(*piece, 1, 0) for piece in pieces]


def test_a_command_line_that_is_too_long() -> None:
    with pytest.raises(MachineError, match="at most 2047 fit"):
        boot.block(entry=0, memory=GIB, initrd_size=1, command_line=["x" * 2048])


def test_entry(tmp_path: Path) -> None:
    kernel = tmp_path / "vmlinux"
    kernel.write_bytes(pvh_kernel(0x1234567))
    assert boot.entry(kernel) == 0x1234567
    kernel.write_bytes(pvh_kernel(0).replace(b"Xen", b"Xxx"))
    with pytest.raises(MachineError, match="no PVH entry"):
        boot.entry(kernel)
    kernel.write_bytes(b"no kernel")
    with pytest.raises(MachineError, match="can't be read"):
        boot.entry(kernel)
    kernel.unlink()
    with pytest.raises(MachineError, match="can't be read"):
        boot.entry(kernel)


def test_options_are_quoted() -> None:
    text = qemu.options("file", path="/a,b=c", force_raw="on")
    assert text == "file,path=/a,,b=c,force-raw=on"


@given(st.dictionaries(st.integers(0, 255), st.binary(min_size=1, max_size=5000), max_size=8))
def test_memory_comes_back(tmp_path_factory: pytest.TempPathFactory, pages: Any) -> None:
    path = tmp_path_factory.mktemp("memory") / "memory"
    before, after = os.memfd_create("before"), os.memfd_create("after")
    try:
        for fd in (before, after):
            os.ftruncate(fd, 2 * MIB)
        for page, data in pages.items():
            os.pwrite(before, data, page * 4096)
        size = os.fstat(before).st_size
        os.ftruncate(before, 2 * MIB)
        pack(before, path)
        unpack(path, after)
        assert size == 2 * MIB
        assert os.pread(after, size, 0) == os.pread(before, size, 0)
    finally:
        os.close(before)
        os.close(after)


def test_zeros_take_no_room(memory: int, tmp_path: Path) -> None:
    """A page that was written and cleared again is packed as one that never was."""
    with mmap.mmap(memory, 64 * MIB) as pages:
        pages[10 * MIB] = 1
        pages[20 * MIB] = 1
        pages[10 * MIB] = 0
    packed = tmp_path / "memory"
    pack(memory, packed)
    assert packed.stat().st_size == 2 * 4096
    fd = os.memfd_create("other")
    os.ftruncate(fd, 64 * MIB)
    unpack(packed, fd)
    assert os.fstat(fd).st_blocks * 512 == 4096
    os.close(fd)


def test_memory_of_another_size(memory: int, tmp_path: Path) -> None:
    pack(memory, tmp_path / "memory")
    os.ftruncate(memory, 32 * MIB)
    with pytest.raises(MachineError, match="not the memory of such a machine"):
        unpack(tmp_path / "memory", memory)


def test_memory_that_is_cut_short(memory: int, tmp_path: Path) -> None:
    os.pwrite(memory, b"x" * 8192, 0)
    pack(memory, tmp_path / "memory")
    for size, sentence in ((4096 + 100, "cut short"), (30, "damaged"), (10, "damaged"), (0, "dam")):
        os.truncate(tmp_path / "memory", size)
        with pytest.raises(MachineError, match=sentence):
            unpack(tmp_path / "memory", memory)


def test_host_time_is_forgotten() -> None:
    assert forget_host_time(STATE % os.urandom(24)) == STATE % bytes(24)
    for state in (b"", (STATE % bytes(24)) * 2, (STATE % bytes(24)).replace(b"icount", b"xxxxxx")):
        with pytest.raises(MachineError, match="no timers where they should be"):
            forget_host_time(state)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ("", "can't be read"),
        ("{", "can't be read"),
        ("[]", "this is no boot snapshot"),
        ('{"format": "rewind-boot-snapshot"}', "of version None"),
        ('{"format": "rewind-boot-snapshot", "version": 1}', "damaged"),
    ],
)
def test_a_snapshot_that_is_none(tmp_path: Path, data: str, sentence: str) -> None:
    (tmp_path / "snapshot.json").write_text(data)
    (tmp_path / "console").touch()
    with pytest.raises(MachineError, match=sentence):
        Snapshot.load(tmp_path)
