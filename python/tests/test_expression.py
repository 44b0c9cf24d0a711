"""Expressions: what they name, and what is wrong with them."""

import re
import struct
from typing import Any

import pytest
from drgn import Architecture, FaultError, Object, Platform, Program, TypeMember

from rewind.inspect import InspectError
from rewind.inspect.answers import Place
from rewind.inspect.expression import LENGTH_MAX, evaluate

MEMORY = 0x1000


class Variables:
    """A program with a list of two nodes, a table of numbers and an index, in its memory.

    ::

        struct node { long value; struct node *next; unsigned low : 3, high; };
        struct node first = { 1, &second }, second = { 2, 0 };
        int table[4] = { 2, 1, 0, 3 };
    """

    def __init__(self) -> None:
        self.program = program = Program(Platform(Architecture.X86_64))
        data = bytearray(0x100)
        struct.pack_into("<qQ", data, 0x00, 1, MEMORY + 0x20)
        struct.pack_into("<qQ", data, 0x20, 2, 0)
        struct.pack_into("<4i", data, 0x40, 2, 1, 0, 3)

        def read(address: int, count: int, offset: int, physical: bool) -> bytes:
            return bytes(data[offset : offset + count])

        program.add_memory_segment(MEMORY, len(data), read)
        long = program.int_type("long", 8, True)
        unsigned = program.int_type("unsigned int", 4, False)
        number = program.int_type("int", 4, True)
        node = program.struct_type(
            "node",
            24,
            (
                TypeMember(long, "value", 0),
                TypeMember(lambda: program.pointer_type(node), "next", 64),
                TypeMember(Object(program, unsigned, bit_field_size=3, value=0), "low", 128),
                TypeMember(unsigned, "high", 160),
            ),
        )
        self.objects = {
            "first": Object(program, node, address=MEMORY),
            "table": Object(program, program.array_type(number, 4), address=MEMORY + 0x40),
            "ns::counter": Object(program, long, address=MEMORY + 0x80),
            "p": Object(program, program.pointer_type(node), value=MEMORY + 0x20),
            "gone": Object(program, long),
            "wild": Object(program, program.pointer_type(program.pointer_type(node)), value=8),
        }

    def __call__(self, name: str) -> Any:
        return self.objects[name]


@pytest.fixture(scope="module")
def variables() -> Variables:
    return Variables()


@pytest.mark.parametrize(
    ("text", "address", "size"),
    [
        ("first", 0x00, 24),
        (" first . value ", 0x00, 8),
        ("first.next->value", 0x20, 8),
        ("first.next.value", 0x20, 8),
        ("*first.next", 0x20, 24),
        ("(*first.next).next", 0x28, 8),
        ("*p", 0x20, 24),
        ("p->low", 0x30, 1),
        ("p->high", 0x34, 4),
        ("table", 0x40, 16),
        ("table[3]", 0x4C, 4),
        ("table[0x2]", 0x48, 4),
        ("table[table[0]]", 0x48, 4),
        ("*table", 0x40, 4),
        ("p[-1].value", 0x08, 8),
        ("ns::counter", 0x80, 8),
    ],
)
def test_names(variables: Variables, text: str, address: int, size: int) -> None:
    place = evaluate(text, variables)
    assert (place.address, place.size) == (MEMORY + address, size)


def test_the_type_is_told(variables: Variables) -> None:
    assert evaluate("first.next", variables) == Place(MEMORY + 8, 8, "struct node *")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("balance", "the program has no variable balance there"),
        ("first.amount", "struct node has no member amount"),
        ("first->", "first-> is no expression that is understood: its end"),
        ("", "its end"),
        ("first second", "'second'"),
        ("table[", "its end"),
        ("table[1", "its end"),
        ("first + 1", "first + 1 is no expression: '+'"),
        ("first; exit()", "no expression: ';'"),
        ("*first", "*first can't be evaluated: struct node is neither a pointer nor an array"),
        ("table.x", "table.x can't be evaluated"),
        ("table[first]", "the index is no number"),
        ("p", "p is in a register there, or nowhere: not in memory"),
        ("gone", "gone was optimised away there"),
        ("table[gone]", "table[gone] was optimised away there, or what it goes by was"),
        ("**wild", "**wild can't be followed: nothing is at 0x8"),
        ("(" * LENGTH_MAX, "its end"),
        ("*" * (LENGTH_MAX - 1) + "p", "neither a pointer nor an array"),
        ("*" * LENGTH_MAX + "p", "the expression is too long"),
    ],
    ids=lambda text: text[:30],
)
def test_what_is_wrong(variables: Variables, text: str, why: str) -> None:
    with pytest.raises(InspectError, match=re.escape(why)):
        evaluate(text, variables)


def test_a_fault_is_none_of_drgns(variables: Variables) -> None:
    def look_up(name: str) -> Any:
        raise FaultError("there", 0x10)

    with pytest.raises(InspectError, match="nothing is at 0x10"):
        evaluate("x", look_up)
