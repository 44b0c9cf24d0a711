# SPDX-License-Identifier: MIT
"""Init's reader of parameters: what it takes, and what it says of the rest."""

import os
import random
import subprocess

import pytest

SHOW_PARAMS = os.environ["SHOW_PARAMS"]

GOOD: list[tuple[str, bytes]] = [
    ("layers", b"2"),
    ("epoch", b"1791331200"),
    ("seed", b"\0\n\xff seed"),
    ("cores", b"4"),
    ("builder", b"/nix/store/a-bash/bin/bash"),
    ("arg", b"-e"),
    ("arg", b""),
    ("arg", b"a b\nc\xff"),
    ("env", b"PATH=/path-not-set"),
    ("env", b"empty="),
    ("env", b"lines=1\n2\n"),
    ("file", b".attr-0\0con\0tent\n"),
    ("file", b"empty\0"),
    ("output", b"out\0/nix/store/b-x"),
    ("output", b"dev\0/nix/store/c-x-dev"),
    ("shell", b"/nix/store/a-bash/bin/sh"),
]


SHELL: list[tuple[str, bytes]] = [
    ("pid", b"65"),
    ("layer", b"3"),
    ("rows", b"24"),
    ("columns", b"80"),
    ("going", b"1"),
    ("path", b"/nix/store/a/bin"),
    ("path", b"/nix/store/b/bin"),
    ("env", b"TERM=vt100"),
    ("arg", b"ls"),
    ("arg", b"a b\xff"),
    ("script", b"echo\nx"),
    ("shell", b"/nix/store/a/bin/bash"),
]


def encode(values: list[tuple[str, bytes]]) -> bytes:
    return b"".join(b"%s %d\n%s\n" % (k.encode(), len(v), v) for k, v in values)


def run(data: bytes, *options: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([SHOW_PARAMS, *options], check=False, input=data, capture_output=True)


def said_of(data: bytes, *options: str) -> str:
    """The sentence that bad parameters get; a crash, or a sanitizer's report, fails the test."""
    result = run(data, *options)
    text = result.stderr.decode(errors="replace")
    assert result.returncode == 3, text
    assert text.startswith("parameters: ")
    assert text.count("\n") == 1
    return text


def with_value(key: str, value: bytes) -> bytes:
    """The good parameters, with one replaced."""
    return encode([(k, value if k == key else v) for k, v in GOOD])


def test_good() -> None:
    result = run(encode(GOOD))
    assert result.returncode == 0, result.stderr
    expected = [
        b"layers 2",
        b"epoch 1791331200",
        b"cores 4",
        b"seed 8 \0\n\xff seed",
        b"builder 26 /nix/store/a-bash/bin/bash",
        b"shell 24 /nix/store/a-bash/bin/sh",
        b"argv 4 bash",
        b"argv 2 -e",
        b"argv 0 ",
        b"argv 6 a b\nc\xff",
        b"envp 18 PATH=/path-not-set",
        b"envp 6 empty=",
        b"envp 10 lines=1\n2\n",
        b"file 7 .attr-0",
        b"content 9 con\0tent\n",
        b"file 5 empty",
        b"content 0 ",
        b"output 3 out",
        b"path 14 /nix/store/b-x",
        b"output 3 dev",
        b"path 18 /nix/store/c-x-dev",
    ]
    assert result.stdout == b"\n".join(expected) + b"\n"


ROOT: list[tuple[str, bytes]] = [
    ("layers", b"1"),
    ("epoch", b"0"),
    ("seed", b"x"),
    ("cores", b"1"),
    ("root", b"/src"),
    ("builder", b"./a/make"),
    ("arg", b"check"),
    ("env", b"PATH=/bin"),
]


def test_root() -> None:
    """It has no shell and outputs, and its argv[0] is as it was given."""
    result = run(encode(ROOT))
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith(
        b"root 4 /src\nbuilder 8 ./a/make\nargv 8 ./a/make\nargv 5 check\nenvp 9 PATH=/bin\n"
    )


@pytest.mark.parametrize("key", ["file", "output", "shell"])
def test_root_excludes(key: str) -> None:
    given = next(value for value in GOOD if value[0] == key)
    said = said_of(encode([*ROOT, given]))
    assert said == "parameters: a job with a root has no shell, files and outputs\n"


def test_root_is_absolute() -> None:
    said = said_of(encode([*(v for v in ROOT if v[0] != "root"), ("root", b"src")]))
    assert "not an absolute path" in said


def test_order_is_free() -> None:
    """The builder may come after its arguments: argv[0] is still its base name."""
    moved = [v for v in GOOD if v[0] != "builder"] + [("builder", b"relative")]
    assert b"argv 8 relative\nargv 2 -e\n" in run(encode(moved)).stdout


@pytest.mark.parametrize("key", ["layers", "epoch", "seed", "cores", "builder", "shell", "output"])
def test_missing(key: str) -> None:
    data = encode([v for v in GOOD if v[0] != key])
    assert said_of(data) == f"parameters: no {key}\n"


@pytest.mark.parametrize("key", ["layers", "epoch", "seed", "cores", "builder", "shell"])
def test_twice(key: str) -> None:
    data = encode([*GOOD, *(v for v in GOOD if v[0] == key)])
    assert "given twice" in said_of(data)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("layers", b"0", "at least one"),
        ("layers", b"5", "too large"),
        ("layers", b"", "not a number"),
        ("layers", b"-1", "not a number"),
        ("layers", b"1 ", "not a number"),
        ("epoch", b"9223372036854775808", "too large"),
        ("epoch", b"99999999999999999999999999", "too large"),
        ("epoch", b"1e9", "not a number"),
        ("seed", b"", "1 to 4096 bytes"),
        ("seed", b"x" * 4097, "1 to 4096 bytes"),
        ("cores", b"0", "at least one"),
        ("cores", b"4294967296", "too large"),
        ("builder", b"", "empty"),
        ("builder", b"/bin/sh\0x", "NUL"),
        ("shell", b"bin/sh", "absolute"),
        ("shell", b"", "absolute"),
        ("arg", b"a\0b", "NUL"),
        ("env", b"NAME", "has no ="),
        ("env", b"A=\0", "NUL"),
        ("file", b"name", "no NUL"),
        ("file", b"\0content", "empty name"),
        ("file", b"../x\0", "not a file name"),
        ("file", b"a/b\0", "not a file name"),
        ("file", b"..\0", "not a file name"),
        ("file", b"x" * 256 + b"\0", "not a file name"),
        ("output", b"out", "no NUL"),
        ("output", b"\0/nix/store/x", "empty name"),
        ("output", b"o\nut\0/nix/store/x", "not a name"),
        ("output", b"out\0/nix/store/", "not a path"),
        ("output", b"out\0/nix/store/..", "not a path"),
        ("output", b"out\0/nix/store/x/y", "not a path"),
        ("output", b"out\0/nix/storex", "not a path"),
        ("output", b"out\0/etc/passwd", "not a path"),
        ("output", b"out\0/nix/store/x\0y", "not a path"),
    ],
)
def test_bad_value(key: str, value: bytes, why: str) -> None:
    data = with_value(key, value)
    text = said_of(data)
    assert why in text
    assert f"parameters: {key} at byte {encode(GOOD).index(key.encode())}" in text


@pytest.mark.parametrize("value", [b"out\0/nix/store/x", b"x\0/nix/store/b-x"])
def test_output_twice(value: bytes) -> None:
    assert "output at byte" in said_of(encode([*GOOD, ("output", value)]))


def test_too_many_outputs() -> None:
    outputs = [("output", b"o%d\0/nix/store/%d" % (i, i)) for i in range(49)]
    others = [v for v in GOOD if v[0] != "output"]
    assert run(encode(others + outputs[:48])).returncode == 0
    assert "more outputs" in said_of(encode(others + outputs))


@pytest.mark.parametrize(
    ("tail", "why"),
    [
        (b"x", "no key and length"),
        (b"arg", "no key and length"),
        (b"arg 3", "no key and length"),
        (b"\n", "no key and length"),
        (b"arg\n1\nx\n", "no key and length"),
        (b"a-key-longer-than-any 1\nx\n", "no key and length"),
        (b"arg 4\nabc\n", "longer than what is left"),
        (b"arg 3\nabc", "longer than what is left"),
        (b"arg 18446744073709551615\nabc\n", "too large"),
        (b"arg -1\nabc\n", "not a number"),
        (b"arg 2\nabc\n", "not followed by a line feed"),
        (b"arg 0x3\nabc\n", "not a number"),
        (b"argh 3\nabc\n", "unknown"),
        (b" 3\nabc\n", "unknown"),
    ],
)
def test_bad_form(tail: bytes, why: str) -> None:
    assert why in said_of(encode(GOOD) + tail)


def test_cut_short() -> None:
    """Cut at any byte, the parameters are whole (up to a value's end) or refused."""
    data = encode(GOOD)
    whole = 0
    for size in range(len(data)):
        result = run(data[:size])
        assert result.returncode in (0, 3), result.stderr
        whole += result.returncode == 0
    assert whole == 0  # the shell comes last, and is needed


def test_noise() -> None:
    """Three hundred times, a byte or three of the good parameters is another."""
    source = random.Random(2)
    for _ in range(300):
        data = bytearray(encode(GOOD))
        for _ in range(source.randint(1, 3)):
            data[source.randrange(len(data))] = source.choice(b"\0\n 09a/=\xff")
        assert run(bytes(data)).returncode in (0, 3)


# --- those of a shell


def test_shell() -> None:
    result = run(encode(SHELL), "shell")
    assert result.returncode == 0, result.stderr
    expected = [
        b"pid 65",
        b"rows 24",
        b"columns 80",
        b"going",
        b"layer 3",
        b"path 16 /nix/store/a/bin",
        b"path 16 /nix/store/b/bin",
        b"envp 10 TERM=vt100",
        b"argv 2 ls",
        b"argv 4 a b\xff",
        b"script 6 echo\nx",
        b"shell 21 /nix/store/a/bin/bash",
    ]
    assert result.stdout == b"\n".join(expected) + b"\n"
    assert run(encode(SHELL[:1]), "shell").stdout == b"pid 65\nrows 0\ncolumns 0\n"
    assert said_of(encode(SHELL[1:]), "shell") == "parameters: no pid\n"


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("pid", b"", "not a number"),
        ("pid", b"2147483648", "too large"),
        ("layer", b"4", "too large"),
        ("rows", b"65536", "too large"),
        ("going", b"2", "too large"),
        ("path", b"bin", "absolute"),
        ("env", b"TERM", "has no ="),
        ("arg", b"a\0b", "NUL"),
        ("script", b"\0", "NUL"),
        ("shell", b"bash", "absolute"),
        ("seed", b"1", "unknown"),
    ],
)
def test_bad_value_of_a_shell(key: str, value: bytes, why: str) -> None:
    data = encode([v for v in SHELL if v[0] != key] + [(key, value)])
    assert why in said_of(data, "shell")


@pytest.mark.parametrize("key", ["pid", "layer", "rows", "columns", "going", "script", "shell"])
def test_twice_for_a_shell(key: str) -> None:
    data = encode([*SHELL, *(v for v in SHELL if v[0] == key)])
    assert "given twice" in said_of(data, "shell")
