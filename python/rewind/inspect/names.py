"""Names of C++ as a person writes them, as far as that is simple.

A mangled name (the Itanium C++ ABI's) says in which namespaces and classes a function is, and what
it is called. What is left out are the arguments of templates and functions. Of a name that is not
understood nothing is made.
"""

import re

_LENGTH = re.compile(r"[1-9][0-9]*")
_LITERAL = re.compile(r"L[a-z]n?[0-9]+E")
_SUBSTITUTION = re.compile(r"S[0-9A-Z]*_")
_NUMBER = re.compile(r"[0-9]*_")
_UNNAMED = re.compile(r"Ut[0-9]*_")
_DISCRIMINATOR = re.compile(r"_(?:[0-9]|_[0-9]+_)")
_STANDARD = {
    "Sa": "allocator",
    "Sb": "basic_string",
    "Ss": "basic_string",
    "Si": "basic_istream",
    "So": "basic_ostream",
    "Sd": "basic_iostream",
}
_TWO_LETTERS = frozenset(("St", "Sa", "Sb", "Ss", "Si", "So", "Sd", "Dn", "Di", "Ds", "Da", "Dp"))
"""Which are not to be taken for one that opens something, and another."""
_ANONYMOUS = "_GLOBAL__N_1"


class _Odd(Exception):
    """The name is not one of the simple ones."""


def qualified(mangled: str, name: str | None = None) -> str | None:
    """``bank::Account::deposit`` for ``_ZN4bank7AccountIlE7depositEl``.

    :param name: what the DWARF calls it, for an operator.
    :return: None if *mangled* is no name of C++'s, or is not understood.
    """
    if not mangled.startswith("_Z"):
        return None
    try:
        parts, _ = _encoding(mangled, 2)
    # The last two are of a name that no compiler made.
    except (_Odd, IndexError, ValueError, RecursionError):
        return None
    if not parts:
        return None
    parts[-1] = parts[-1] or name or ""
    return "::".join(parts) if all(parts) else None


def _encoding(text: str, at: int) -> tuple[list[str], int]:
    """The parts of the name at *at*, the last "" if it is none that is written there in letters."""
    if text[at] == "Z":
        # What is in a function: the function's own name, its parameters, E, and the name in it.
        outer, at = _encoding(text, at + 1)
        at = _skip(text, at)
        if text[at] == "s":
            raise _Odd
        inner, at = _encoding(text, at)
        found = _DISCRIMINATOR.match(text, at)
        return outer + inner, found.end() if found else at
    if text[at] == "N":
        at += 1
        while text[at] in "rVKRO":
            at += 1
        parts: list[str] = []
        while text[at] != "E":
            at = _component(text, at, parts)
        return parts, at + 1
    parts = []
    if text.startswith("St", at):
        parts, at = ["std"], at + 2
    at = _component(text, at, parts)
    if at < len(text) and text[at] == "I":
        at = _skip(text, at + 1)
    return parts, at


def _component(text: str, at: int, parts: list[str]) -> int:
    """Add the component at *at* to *parts*; where the next one begins."""
    here = text[at]
    if found := _LENGTH.match(text, at):
        end = found.end() + int(found[0])
        name = text[found.end() : end]
        if len(name) != int(found[0]):
            raise _Odd
        parts.append("(anonymous namespace)" if name == _ANONYMOUS else name)
        return end
    if here == "I":
        return _skip(text, at + 1)
    if here == "L":
        return at + 1
    if found := _SUBSTITUTION.match(text, at):
        # Something that stood before; rarely in the name of a function itself.
        raise _Odd
    if text.startswith("St", at):
        parts.append("std")
        return at + 2
    if standard := _STANDARD.get(text[at : at + 2]):
        parts += ["std", standard]
        return at + 2
    if here == "C" and parts:
        parts.append(parts[-1])
        return at + 2
    if here == "D" and text[at + 1] in "012" and parts:
        parts.append(f"~{parts[-1]}")
        return at + 2
    if text.startswith("Ul", at):
        parts.append("{lambda}")
        return _match(_NUMBER, text, _skip(text, at + 2))
    if found := _UNNAMED.match(text, at):
        parts.append("{unnamed}")
        return found.end()
    if here == "B":
        # An ABI tag: a name that is not shown.
        found = _LENGTH.match(text, at + 1)
        if found is None:
            raise _Odd
        return found.end() + int(found[0])
    if text[at : at + 2].isalpha() and text[at : at + 2].islower():
        # An operator; which one the DWARF says.
        parts.append("")
        if text.startswith("cv", at):
            raise _Odd
        return at + 2
    raise _Odd


def _skip(text: str, at: int) -> int:
    """Where what follows the E begins that closes what *at* is in."""
    open_ = ["I"]
    while open_:
        if text.startswith("Ul", at):
            open_.append("Ul")
            at += 2
        elif text[at] == "E":
            at += 1
            if open_.pop() == "Ul":
                at = _match(_NUMBER, text, at)
        elif text[at : at + 2] in _TWO_LETTERS:
            at += 2
        else:
            for pattern in (_LITERAL, _UNNAMED, _SUBSTITUTION):
                if found := pattern.match(text, at):
                    at = found.end()
                    break
            else:
                if found := _LENGTH.match(text, at):
                    at = found.end() + int(found[0])
                else:
                    if text[at] in "INFXJLZ":
                        open_.append(text[at])
                    at += 1
    return at


def _match(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    if found is None:
        raise _Odd
    return found.end()
