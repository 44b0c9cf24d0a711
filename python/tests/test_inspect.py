"""What needs no machine of the looking into one: registers, page tables, answers."""

import os
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewind.inspect import InspectError, memory
from rewind.inspect.answers import Frame, Task, place
from rewind.inspect.memory import PAGE, AddressSpace, Fault, Memory
from rewind.inspect.names import qualified
from rewind.inspect.registers import NAMES, Registers
from rewind.machine import boot

REGISTERS = """
CPU#0
RAX=0000000000000028 RBX=ffff8880008b9900 RCX=0000000000000028 RDX=00000000000005e0
RSI=0000000000000000 RDI=ffff8880008b9900 RBP=0000000000000000 RSP=ffffc90000107ea0
R8 =0000000000000008 R9 =0000000000000009 R10=0000000013da4d4a R11=00000000000aae60
R12=0000004100000040 R13=0000000000000040 R14=ffff8880008bb618 R15=ffffffff816dc7e0
RIP=ffffffff8125e229 RFL=00000002 [-------] CPL=0 II=0 A20=1 SMM=0 HLT=0
ES =0000 0000000000000000 00000000 00000000
CS =0010 0000000000000000 ffffffff 00a09b00 DPL=0 CS64 [-RA]
FS =0000 00007ffff7dc76c0 00000000 00000000
GS =0000 ffffffff8183b000 00000000 00000000
CR0=80050033 CR2=0000555555556004 CR3=0000000000ada000 CR4=001506b0
"""
"""What QEMU 10.0's monitor says."""


def test_registers() -> None:
    registers = Registers.parse(REGISTERS)
    assert registers.general["rip"] == 0xFFFFFFFF8125E229
    assert registers.general["r8"] == 8
    assert registers.general["rflags"] == 2
    assert tuple(registers.general) == NAMES
    assert registers.level == 0
    assert registers.fs_base == 0x7FFFF7DC76C0
    assert Registers.from_data(registers.to_data()) == registers


@pytest.mark.parametrize("missing", ["RBX", "RIP", "RFL", "CPL", "FS "])
def test_registers_missing(missing: str) -> None:
    with pytest.raises(InspectError, match="form that is not known"):
        Registers.parse(REGISTERS.replace(missing, "XYZ"))


@pytest.fixture
def file() -> Iterator[int]:
    """A memfd."""
    fd = os.memfd_create("test")
    yield fd
    os.close(fd)


def test_gap() -> None:
    """Physical memory is where the machine has it."""
    assert (memory.GAP, memory.ABOVE_GAP) == (boot.GAP, boot.ABOVE_GAP)


def test_memory_above_gap(file: int) -> None:
    size = memory.GAP + 4 * PAGE
    os.ftruncate(file, size)
    os.pwrite(file, b"below", memory.GAP - 5)
    os.pwrite(file, b"above", memory.GAP)
    ours = Memory(file, size)
    assert ours.read(memory.GAP - 5, 5) == b"below"
    assert ours.read(memory.ABOVE_GAP, 5) == b"above"
    for address, count in (
        (memory.GAP, 1),
        (memory.GAP - 5, 6),
        (memory.ABOVE_GAP - 1, 2),
        (memory.ABOVE_GAP + 4 * PAGE - 1, 2),
        (1 << 63, 1),
    ):
        with pytest.raises(Fault):
            ours.read(address, count)


def test_memory_of_process(file: int) -> None:
    """A process's own copy of pages is seen, and not the file's."""
    import mmap

    os.ftruncate(file, 4 * PAGE)
    os.pwrite(file, b"before", PAGE)
    with mmap.mmap(file, 4 * PAGE, flags=mmap.MAP_PRIVATE) as pages:
        pages[PAGE : PAGE + 5] = b"after"
        ours = Memory.of_process(os.getpid(), 4 * PAGE, file)
        try:
            assert ours.read(PAGE, 6) == b"aftere"
        finally:
            os.close(ours.file)
        with pytest.raises(InspectError, match="more than one piece"):
            Memory.of_process(os.getpid(), 5 * PAGE, file)
    with pytest.raises(InspectError, match="no such memory"):
        Memory.of_process(os.getpid(), 4 * PAGE, file)


def _entry(file: int, table: int, index: int, value: int) -> None:
    os.pwrite(file, struct.pack("<Q", value), table + 8 * index)


def test_page_tables(file: int) -> None:
    size = 8 << 20
    os.ftruncate(file, size)
    _entry(file, 0x1000, 1, 0x2000 | 7)
    _entry(file, 0x2000, 2, 0x3000 | 7)
    _entry(file, 0x3000, 3, 0x4000 | 7)
    _entry(file, 0x4000, 4, 0x8000_0000_0000_5000 | 7)
    _entry(file, 0x4000, 5, 0x6000 | 0x100)
    _entry(file, 0x4000, 6, size | 7)
    _entry(file, 0x3000, 4, 4 << 20 | 0x87)
    _entry(file, 0x2000, 3, 1 << 46 | 7)
    space = AddressSpace(Memory(file, size), 0x1000)
    base = 1 << 39 | 2 << 30
    assert space.translate(base | 3 << 21 | 4 << 12 | 0x123) == 0x5123
    assert space.translate(base | 4 << 21 | 0x12345) == 4 << 20 | 0x12345
    os.pwrite(file, b"x" * PAGE, 0x5000)
    assert space.read_page(base | 3 << 21 | 4 << 12) == b"x" * PAGE
    for address in (
        0,
        base,
        # protected
        base | 3 << 21 | 5 << 12,
        # a table that is not in memory
        base + (1 << 30),
        # no user address
        1 << 47,
        (1 << 64) - 1,
        -1,
    ):
        with pytest.raises(Fault):
            space.translate(address)
    # a page that is not in memory
    with pytest.raises(Fault):
        space.read_page(base | 3 << 21 | 6 << 12)


LIBRARY = Frame(1, function="write", module="/nix/store/x-glibc/lib/libc.so.6")
SOURCE = Frame(2, function="inline_of_a_header", file="/nix/store/x-gcc/include/x.h", line=3)
OWN = Frame(3, function="deposit", file="/build/source/bank.c", line=33, own=True)
CALLER = Frame(4, function="work", file="/build/source/bank.c", line=42, own=True)


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([LIBRARY, SOURCE, OWN, CALLER], OWN),
        ([LIBRARY, SOURCE], SOURCE),
        ([LIBRARY, LIBRARY], LIBRARY),
        ([], None),
    ],
)
def test_place(frames: list[Frame], expected: Frame | None) -> None:
    assert place(frames) == expected


def test_frame_in_words() -> None:
    assert str(OWN) == "deposit (/build/source/bank.c:33)"
    assert str(LIBRARY) == "write in /nix/store/x-glibc/lib/libc.so.6"
    assert str(Frame(16, function="f", offset=18, module="m")) == "f+0x12 in m"
    assert str(Frame(16)) == "0x10"


def test_data() -> None:
    """What is sent is what comes."""
    task = Task(pid=64, tid=65, parent=1, name="bank", state="waits")
    assert Task.from_data(task.to_data()) == task
    assert Frame.from_data(OWN.to_data()) == OWN


@pytest.mark.parametrize(
    ("mangled", "expected"),
    [
        ("_ZN4bank7AccountIlE7depositEl", "bank::Account::deposit"),
        ("_ZNK4bank7AccountIlE7balanceEv", "bank::Account::balance"),
        ("_ZN4bank12_GLOBAL__N_16refuseERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
         "bank::(anonymous namespace)::refuse"),
        ("_ZN4bank7AccountIlEC2El", "bank::Account::Account"),
        ("_ZN4bank4UndoD1Ev", "bank::Undo::~Undo"),
        ("_ZNSt6thread11_State_implINS_8_InvokerISt5tupleIJZ4mainEUlvE_EEEEE6_M_runEv",
         "std::thread::_State_impl::_M_run"),
        ("_ZSt9terminatev", "std::terminate"),
        ("_ZNSt15basic_streambufIcSt11char_traitsIcEE6xsgetnEPcl", "std::basic_streambuf::xsgetn"),
        ("_ZN1AILi5ELb1EE1fEv.isra.0", "A::f"),
        # An operator, which the DWARF has to say.
        ("_ZZ4mainENKUlvE_clEv", None),
        # No C++.
        ("main", None),
        ("", None),
        # Cut short, or made up.
        ("_Z", None),
        ("_ZN4bank", None),
        ("_ZN4ban", None),
        ("_ZN999999999999bank", None),
        ("_ZN" + "9" * 9999, None),
        ("_Z" * 5000, None),
        ("_Z" + "Z" * 100_000, None),
        ("_ZNS_3fooEv", None),
    ],
)  # fmt: skip
def test_names(mangled: str, expected: str | None) -> None:
    assert qualified(mangled) == expected


def test_name_of_an_operator() -> None:
    name = qualified("_ZZ4mainENKUlvE_clEv", "operator()")
    assert name == "main::{lambda}::operator()"


@given(st.text("_ZNKISTELJUl0123459ab", max_size=60))
def test_made_up_names(rest: str) -> None:
    """Whatever a program has for a symbol, there is an answer."""
    found = qualified(f"_Z{rest}")
    assert found is None or found
