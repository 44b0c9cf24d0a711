"""Expressions that name something in a program's memory: ``balance``, ``a.b``, ``p->next``, ``*p``.

A name is a variable's; the names, types and places are drgn's. Nothing is called, and nothing is
calculated but an index.
"""

import re
from collections.abc import Callable
from typing import Any

from drgn import FaultError, Object, ObjectAbsentError, TypeKind, sizeof

from rewind.inspect import InspectError
from rewind.inspect.answers import Place

LENGTH_MAX = 256
"""Characters of an expression."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|[0-9]+)"
    r"|(?P<name>[A-Za-z_$][\w$]*(?:::~?[A-Za-z_$][\w$]*)*)"
    r"|(?P<sign>->|[.*&()\[\]-]))"
)


def evaluate(text: str, look_up: Callable[[str], Any]) -> Place:
    """Where what *text* names is in memory, and of what size.

    :param look_up: gives drgn's object for a variable's name, or raises `LookupError`.
    :raises InspectError: if there is no such thing, or it is not in memory.
    """
    if len(text) > LENGTH_MAX:
        raise InspectError("the expression is too long")
    parser = _Parser(text, look_up)
    try:
        found = parser.unary()
        parser.end()
        return _place(text, found)
    except FaultError as error:
        raise InspectError(f"{text} can't be followed: nothing is at {error.address:#x}") from None
    except ObjectAbsentError:
        raise InspectError(f"{text} was optimised away there, or what it goes by was") from None
    except (TypeError, AttributeError, ValueError) as error:
        # drgn's words for "p->next" where p is no pointer.
        raise InspectError(f"{text} can't be evaluated: {error}") from None


def _place(text: str, found: Any) -> Place:
    if found.absent_:
        raise InspectError(f"{text} was optimised away there")
    if found.address_ is None:
        raise InspectError(f"{text} is in a register there, or nowhere: not in memory")
    if found.bit_field_size_ is not None:
        # The bytes that it is in.
        size = -(-(found.bit_offset_ + found.bit_field_size_) // 8)
    else:
        try:
            size = sizeof(found)
        except TypeError:
            kind = found.type_.type_name()
            raise InspectError(f"{text} has no size: it is of type {kind}") from None
    return Place(int(found.address_), size, found.type_.type_name())


class _Parser:
    """Reads an expression, and evaluates what it has read."""

    def __init__(self, text: str, look_up: Callable[[str], Any]) -> None:
        self._text = text
        self._look_up = look_up
        self._tokens: list[tuple[str, str]] = []
        at = 0
        stripped = text.rstrip()
        while at < len(stripped):
            match = _TOKEN.match(stripped, at)
            if match is None:
                raise InspectError(f"{text} is no expression: {stripped[at:].strip()[0]!r}")
            assert match.lastgroup is not None
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()
        self._tokens.append(("end", ""))

    def end(self) -> None:
        """There must be no more."""
        if self._tokens[0][0] != "end":
            raise self._error()

    def unary(self) -> Any:
        """``*`` of something, or a thing with what follows it."""
        if self._take("*"):
            return self._element(self.unary(), 0)
        return self._postfix(self._primary())

    def _primary(self) -> Any:
        if self._take("("):
            inner = self.unary()
            self._expect(")")
            return inner
        kind, name = self._tokens[0]
        if kind != "name":
            raise self._error()
        self._tokens.pop(0)
        try:
            return self._look_up(name)
        except LookupError:
            raise InspectError(f"the program has no variable {name} there") from None

    def _postfix(self, found: Any) -> Any:
        while True:
            if self._take(".") or self._take("->"):
                kind, name = self._tokens.pop(0)
                if kind != "name":
                    raise self._error()
                try:
                    found = found.member_(name)
                except LookupError:
                    raise InspectError(f"{found.type_.type_name()} has no member {name}") from None
            elif self._take("["):
                found = self._element(found, self._index())
                self._expect("]")
            else:
                return found

    def _index(self) -> int:
        sign = -1 if self._take("-") else 1
        kind, text = self._tokens[0]
        if kind == "number":
            self._tokens.pop(0)
            return sign * int(text, 0 if text[:2] in ("0x", "0X") else 10)
        value = self.unary().value_()
        if not isinstance(value, int):
            raise InspectError(f"in {self._text} the index is no number")
        return sign * value

    @staticmethod
    def _element(found: Any, index: int) -> Any:
        kind = found.type_
        while kind.kind == TypeKind.TYPEDEF:
            kind = kind.type
        if kind.kind not in (TypeKind.POINTER, TypeKind.ARRAY):
            raise TypeError(f"{found.type_.type_name()} is neither a pointer nor an array")
        element: Object = found[index]
        return element

    def _take(self, sign: str) -> bool:
        if self._tokens[0] == ("sign", sign):
            self._tokens.pop(0)
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise self._error()

    def _error(self) -> InspectError:
        kind, text = self._tokens[0] if self._tokens else ("end", "")
        what = "its end" if kind == "end" else repr(text)
        return InspectError(f"{self._text} is no expression that is understood: {what}")
