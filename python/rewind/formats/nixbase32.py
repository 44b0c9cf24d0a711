"""Nix's base-32 encoding of hashes.

Source of the format: the Nix reference manual, "Nix32 Encoding" (protocols). It differs from
RFC 4648 in its alphabet (no e, o, t, u), and in that the digits come from the end of the
bytes, taken as one little-endian number, most significant digit first.
"""

ALPHABET = "0123456789abcdfghijklmnpqrsvwxyz"
_VALUES = {digit: value for value, digit in enumerate(ALPHABET)}


def encode(data: bytes) -> str:
    """The digits of *data*: 52 for the 32 bytes of a SHA-256, 32 for a store path's 20."""
    number = int.from_bytes(data, "little")
    digits = (len(data) * 8 + 4) // 5
    return "".join(ALPHABET[number >> 5 * n & 31] for n in reversed(range(digits)))


def decode(text: str) -> bytes:
    """The bytes that *text* encodes.

    :raises ValueError: if a character is no digit, or the digits do not make whole bytes.
    """
    number = 0
    for digit in text:
        if digit not in _VALUES:
            raise ValueError(f"{digit!r} is no digit of Nix's base 32")
        number = number << 5 | _VALUES[digit]
    size = len(text) * 5 // 8
    if number >> size * 8 or len(text) != (size * 8 + 4) // 5:
        raise ValueError(f"{text!r} is not a whole number of bytes in Nix's base 32")
    return number.to_bytes(size, "little")


def sha256(digest: bytes) -> str:
    """A SHA-256 as narinfo files and manifests write it: ``sha256:`` and 52 digits."""
    if len(digest) != 32:
        raise ValueError(f"a SHA-256 has 32 bytes, not {len(digest)}")
    return "sha256:" + encode(digest)
