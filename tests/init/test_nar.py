# SPDX-License-Identifier: MIT
"""Init's NAR writer, against Nix and against a second writer.

Nix tells a build the NAR hash of each path of a closure (exportReferencesGraph
with structured attributes): what it gives for paths that are in the store is
what the writer has to give for them. What cannot be in a store (a tree deeper
than a path can be long) is compared with the writer below, which is written
from the Nix manual's grammar.
"""

import base64
import hashlib
import json
import os
import socket
import stat
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

WRITE_NAR = os.environ["WRITE_NAR"]
NIX32 = "0123456789abcdfghijklmnpqrsvwxyz"


def nar(path: Path) -> bytes:
    """What init's writer makes of a tree."""
    return subprocess.run([WRITE_NAR, path], check=True, capture_output=True).stdout


def refusal(path: Path) -> str:
    """What init's writer says of a tree that it refuses."""
    result = subprocess.run([WRITE_NAR, path], check=False, capture_output=True, text=True)
    assert result.returncode == 3
    return result.stderr


def string(data: bytes) -> bytes:
    """A string of the format: its length, itself, zeros up to a multiple of eight bytes."""
    return struct.pack("<Q", len(data)) + data + bytes(-len(data) % 8)


def reference(name: bytes, directory: int) -> Iterator[bytes]:
    """The second writer: pieces of the node `name` of an open directory."""
    status = os.lstat(name, dir_fd=directory)
    yield string(b"(") + string(b"type")
    if stat.S_ISLNK(status.st_mode):
        yield string(b"symlink") + string(b"target")
        yield string(os.readlink(name, dir_fd=directory))
    elif stat.S_ISDIR(status.st_mode):
        yield string(b"directory")
        inside = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=directory)
        for entry in sorted(os.fsencode(e) for e in os.listdir(inside)):
            yield string(b"entry") + string(b"(") + string(b"name") + string(entry)
            yield string(b"node")
            yield from reference(entry, inside)
            yield string(b")")
        os.close(inside)
    else:
        yield string(b"regular")
        if status.st_mode & stat.S_IXUSR:
            yield string(b"executable") + string(b"")
        file = os.open(name, os.O_RDONLY, dir_fd=directory)
        with os.fdopen(file, "rb") as opened:
            yield string(b"contents") + string(opened.read())
    yield string(b")")


def reference_nar(path: Path) -> bytes:
    """The NAR of a tree by the second writer."""
    parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    data = string(b"nix-archive-1") + b"".join(reference(os.fsencode(path.name), parent))
    os.close(parent)
    return data


def digest(text: str) -> bytes:
    """The bytes of "sha256-BASE64", or of "sha256:" and Nix's base 32 or hexadecimal."""
    if text.startswith("sha256-"):
        return base64.b64decode(text.removeprefix("sha256-"))
    text = text.removeprefix("sha256:")
    if len(text) == 64:
        return bytes.fromhex(text)
    number = 0
    for character in text:
        number = number * 32 + NIX32.index(character)
    return number.to_bytes(32, "little")


def closure() -> list[dict[str, str]]:
    """The paths whose hashes Nix has told this build."""
    attrs = json.loads(Path(os.environ["NIX_ATTRS_JSON_FILE"]).read_text())
    entries: list[dict[str, str]] = attrs["closure"]
    return entries


@pytest.mark.parametrize("path", closure(), ids=lambda entry: Path(entry["path"]).name)
def test_as_nix(path: dict[str, str]) -> None:
    data = nar(Path(path["path"]))
    assert len(data) == int(path["narSize"])
    assert hashlib.sha256(data).digest() == digest(path["narHash"])


def test_second_writer_as_nix() -> None:
    for entry in closure():
        data = reference_nar(Path(entry["path"]))
        assert hashlib.sha256(data).digest() == digest(entry["narHash"])


def test_modes(tmp_path: Path) -> None:
    """Of the mode bits, the owner's for execution is the only one that counts."""
    tree = tmp_path / "tree"
    tree.mkdir()
    for mode in range(0o1000):
        (tree / f"{mode:03o}").touch()
        (tree / f"{mode:03o}").chmod(mode | 0o400)
    assert nar(tree) == reference_nar(tree)


@pytest.mark.parametrize("pieces", [1, 2, 16])
def test_sizes_around_the_buffer(tmp_path: Path, pieces: int) -> None:
    """Sizes with which the content, or all, ends just before, at or after what is sent at once.

    96 bytes come before the content of a file that is the whole archive.
    """
    file = tmp_path / "file"
    end = pieces * 65536
    for size in [*range(end - 120, end - 88), *range(end - 9, end + 9)]:
        file.write_bytes(bytes(i % 251 for i in range(251)) * (size // 251 + 1))
        os.truncate(file, size)
        assert nar(file) == reference_nar(file)


def test_deeper_than_a_path_is_long(tmp_path: Path) -> None:
    """400 levels of 200 bytes: 80,000 bytes, twenty times PATH_MAX."""
    tree = tmp_path / "tree"
    tree.mkdir()
    at = os.open(tree, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("d" * 200, dir_fd=at)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("file", os.O_CREAT, dir_fd=at))
    os.close(at)
    try:
        assert nar(tree) == reference_nar(tree)
    finally:
        # Nix cannot remove it from the build directory, and fails for it.
        subprocess.run(["rm", "-rf", tree], check=True)


def test_many_entries(tmp_path: Path) -> None:
    for i in range(20_000):
        (tmp_path / f"{i * 7919 % 20_000}").touch()
    assert nar(tmp_path) == reference_nar(tmp_path)


def test_a_file_and_a_link_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"alone")
    (tmp_path / "link").symlink_to("to nowhere")
    assert nar(tmp_path / "file") == reference_nar(tmp_path / "file")
    assert nar(tmp_path / "link") == reference_nar(tmp_path / "link")


def test_special_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    assert f"{tmp_path}/pipe is a named pipe" in refusal(tmp_path)
    assert "pipe is a named pipe" in refusal(tmp_path / "pipe")
    assert "socket is a socket" in refusal(tmp_path / "socket")
    assert "null is a device" in refusal(Path("/dev/null"))


def test_nothing_there(tmp_path: Path) -> None:
    assert "No such file or directory" in refusal(tmp_path / "none")
