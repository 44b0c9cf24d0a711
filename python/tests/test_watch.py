"""The control of the plugin that watches: what is written for it, and read of it."""

import ctypes
import os
import re
import struct
from pathlib import Path

import attrs
import pytest

from rewind.inspect.answers import KernelPlaces
from rewind.replay import watch
from rewind.replay.watch import Access, Hit, Watch, Watcher, WatchError

PLACES = KernelPlaces(
    current_task=1, switch_to=2, switch_to_size=3, page_fault=4, pid_offset=5, tgid_offset=6
)
PLUGIN = Path("/plugin/watch.so")


class Plugin:
    """Does in a watcher's file what the plugin would."""

    def __init__(self, watcher: Watcher, version: int = watch.VERSION) -> None:
        (descriptor,) = watcher.pass_fds
        self.descriptor = descriptor
        self.control = watch._Control
        self._write("plugin_version", "<I", version)

    def _write(self, name: str, form: str, *values: int) -> None:
        os.pwrite(self.descriptor, struct.pack(form, *values), getattr(self.control, name).offset)

    def read(self, name: str, form: str) -> int:
        size = struct.calcsize(form)
        data = os.pread(self.descriptor, size, getattr(self.control, name).offset)
        return int(struct.unpack(form, data)[0])

    def take(self) -> None:
        """Be told what to watch for."""
        self._write("taken", "<Q", self.read("generation", "<Q"))

    def hit(self, time: int) -> None:
        """Something at *time*."""
        total = self.read("total", "<Q")
        at = watch._Control.hit.offset + total % self.read("keep", "<I") * ctypes.sizeof(watch._Hit)
        data = struct.pack("<qQQIIII", time, 0xFFFF_FFFF_8100_0000, 0x1000, 8, 4, 10, 11)
        os.pwrite(self.descriptor, data, at)
        self._write("total", "<Q", total + 1)


def test_the_layout_is_the_plugins() -> None:
    # By hand, from watch.c: 8 bytes of magic, then as the compiler lays it out.
    offsets = {name: getattr(watch._Control, name).offset for name, *_ in watch._Control._fields_}
    assert offsets["current_task"] == 16
    assert offsets["generation"] == 56
    assert offsets["after"] == 80
    assert offsets["breakpoints"] == 120
    assert offsets["total"] == 128
    assert offsets["breakpoint"] == 144
    assert ctypes.sizeof(watch._Access) == 24
    assert ctypes.sizeof(watch._Hit) == 40


def test_its_arguments_name_the_file() -> None:
    with Watcher(PLUGIN, PLACES) as watcher:
        option, value = watcher.arguments
        (descriptor,) = watcher.pass_fds
    assert option == "-plugin"
    assert value == f"/plugin/watch.so,control=/proc/self/fd/{descriptor}"


def test_the_last_hits_are_kept() -> None:
    with Watcher(PLUGIN, PLACES) as watcher:
        watcher.set(Watch(physical=(Access(0, 8),), stop=False, keep=3))
        plugin = Plugin(watcher)
        plugin.take()
        for time in range(5):
            plugin.hit(time)
        hits = watcher.hits()
        assert watcher.total == 5
        assert [hit.time for hit in hits] == [2, 3, 4]
        assert attrs.evolve(hits[0], time=0) == Hit(
            0, "write", 0xFFFF_FFFF_8100_0000, 10, 11, 0x1000, 8
        )
        assert hits[0].kernel
        watcher.set(Watch(stop=False))
        plugin.take()
        assert watcher.hits() == []


def test_what_is_told() -> None:
    with Watcher(PLUGIN, PLACES) as watcher:
        watcher.set(
            Watch(
                process=7,
                thread=8,
                breakpoints=frozenset({0x2000, 0x1000}),
                leaving=(3, 4),
                accesses=(Access(0x10, 4, reads=True, writes=False),),
                physical=(Access(0x20, 8),),
                after=5,
                before=6,
                until=9,
            )
        )
        plugin = Plugin(watcher)
        read = {
            name: plugin.read(name, "<I")
            for name in ("process", "thread", "flags", "keep", "breakpoints", "accesses")
        }
        times = [plugin.read(name, "<q") for name in ("after", "before", "until")]
        accesses = os.pread(plugin.descriptor, 48, watch._Control.access.offset)
        assert plugin.read("breakpoint", "<Q") == 0x1000
    assert read == {
        "process": 7, "thread": 8, "flags": 3, "keep": 1, "breakpoints": 2, "accesses": 2
    }  # fmt: skip
    assert times == [5, 6, 9]
    assert struct.unpack("<QQIIQQII", accesses) == (0x10, 4, 1, 0, 0x20, 8, 6, 0)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (Watch(process=1, breakpoints=frozenset(range(5000))), "4,096 breakpoints"),
        (Watch(process=1, accesses=(Access(0, 1),) * 257), "256 places"),
        (Watch(keep=0), "hits can be kept, not 0"),
        (Watch(process=1, accesses=(Access(8, 0),)), "0 bytes at 0x8"),
        (Watch(physical=(Access(8, 1, writes=False),)), "neither"),
        (Watch(breakpoints=frozenset({1})), "of which process"),
    ],
)
def test_what_makes_no_sense(wanted: Watch, why: str) -> None:
    with Watcher(PLUGIN, PLACES) as watcher, pytest.raises(WatchError, match=re.escape(why)):
        watcher.set(wanted)


def test_another_plugin() -> None:
    with Watcher(PLUGIN, PLACES) as watcher:
        with pytest.raises(WatchError, match="was not loaded"):
            watcher.hits()
        plugin = Plugin(watcher, watch.VERSION + 1)
        with pytest.raises(WatchError, match="is of version 2, and not 1"):
            watcher.hits()
        plugin = Plugin(watcher)
        with pytest.raises(WatchError, match="has not run"):
            watcher.hits()
        plugin.take()
        assert watcher.hits() == []
