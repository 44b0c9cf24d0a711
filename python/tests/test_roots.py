"""Images of roots, and what is refused of them: with the mkfs.erofs that is on PATH."""

import gzip
import io
import lzma
import os
import shutil
import socket
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from rewind.cli import rooted
from rewind.cli.errors import Failure
from rewind.inspect.erofs import Layer
from rewind.roots import RootError, is_image, make

MKFS = shutil.which("mkfs.erofs") or "mkfs.erofs"

Change = Callable[[tarfile.TarInfo], tarfile.TarInfo]


def image(source: Path) -> bytes:
    out = source.with_name("image")
    make(source, out, MKFS)
    return out.read_bytes()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin/tool").write_bytes(b"#!/bin/sh\n")
    (root / "bin/tool").chmod(0o750)
    (root / "bin/again").hardlink_to(root / "bin/tool")
    (root / "bin/abs").symlink_to("/bin/tool")
    (root / "bin/out").symlink_to("/../../../etc/passwd")
    (root / "data").write_bytes(os.urandom(20_000))
    (root / "empty").mkdir()
    (root / "empty").chmod(0o1777)
    os.mkfifo(root / "pipe")
    return root


def pack(
    directory: Path, name: str, *, change: Change = lambda header: header, backwards: bool = False
) -> Path:
    """The tarball of *directory*."""
    path = directory.with_name(name)
    names = sorted(one.relative_to(directory).as_posix() for one in directory.rglob("*"))
    with tarfile.open(path, "w") as archive:
        for one in (*reversed(names), ".") if backwards else (".", *names):
            archive.add(directory / one, f"./{one}", recursive=False, filter=change)
    return path


def as_directory(header: tarfile.TarInfo) -> tarfile.TarInfo:
    """With what a directory's image has."""
    header.uid = header.gid = 0
    header.mtime = 1
    return header


def handmade(path: Path, *members: tuple[str, dict[str, Any], bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, attributes, data in members:
            header = tarfile.TarInfo(name)
            for key, value in attributes.items():
                setattr(header, key, value)
            header.size = len(data)
            archive.addfile(header, io.BytesIO(data))
    return path


def test_what_is_in_it(directory: Path) -> None:
    make(directory, directory.with_name("image"), MKFS)
    assert is_image(directory.with_name("image"))
    with Layer(directory.with_name("image")) as layer:
        layer.check()
        tool = layer.find("/bin/tool")
        assert tool.mode == stat.S_IFREG | 0o750
        assert layer.find("/bin/again").number == tool.number
        assert layer.find("/bin/abs").number == tool.number
        assert layer.find("/data").size == 20_000
        assert layer.read(layer.find("/data"), 20_000) == (directory / "data").read_bytes()
        assert layer.find("/empty").mode == stat.S_IFDIR | 0o1777
        assert stat.S_ISFIFO(layer.find("/pipe").mode)
        root = layer.find("/")
        assert {name for name, _ in layer.entries(root)} == {
            *(b".", b"..", b"bin", b"data", b"empty", b"pipe")
        }


def test_same_content_is_the_same_image(directory: Path, tmp_path: Path) -> None:
    expected = image(directory)
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(directory, copy, symlinks=True, ignore=lambda *_: ["pipe", "again"])
    os.mkfifo(copy / "pipe")
    (copy / "bin/again").hardlink_to(copy / "bin/tool")
    assert image(copy) == expected
    tarball = pack(directory, "a.tar", change=as_directory)
    assert image(tarball) == expected
    assert image(pack(directory, "b.tar", change=as_directory, backwards=True)) == expected
    content = tarball.read_bytes()
    for name, data in (
        ("a.tar.gz", gzip.compress(content)),
        ("a.tar.xz", lzma.compress(content)),
        ("a.tar.zst", zstandard.compress(content)),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        assert image(path) == expected


@pytest.mark.parametrize(
    ("key", "value"), [("uid", 7), ("gid", 7), ("mtime", 1_000_000), ("mode", 0o711)]
)
def test_what_a_tarball_says_is_kept(directory: Path, key: str, value: int) -> None:
    def other(header: tarfile.TarInfo) -> tarfile.TarInfo:
        if header.isreg():
            setattr(header, key, value)
        return header

    assert image(pack(directory, "a.tar")) != image(pack(directory, "b.tar", change=other))


def test_times_of_a_tarball_can_be_read(directory: Path) -> None:
    make(pack(directory, "a.tar"), directory.with_name("image"), MKFS)
    with Layer(directory.with_name("image")) as layer:
        layer.check()
        assert layer.read(layer.find("/bin/tool"), 100) == b"#!/bin/sh\n"


def test_parents_are_made_and_devices_left_out(tmp_path: Path) -> None:
    path = handmade(
        tmp_path / "a.tar",
        ("/usr/bin/x", {"mode": 0o6755}, b"x"),
        ("dev/null", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}, b""),
        ("gone", {"type": tarfile.CHRTYPE}, b""),
    )
    make(path, tmp_path / "image", MKFS)
    with Layer(tmp_path / "image") as layer:
        assert layer.find("/usr/bin/x").mode == stat.S_IFREG | 0o6755
        assert layer.find("/usr/bin").mode == stat.S_IFDIR | 0o755
        names = {name for name, _ in layer.entries(layer.find("/"))}
        assert names == {b".", b"..", b"usr"}


def test_a_socket_of_a_directory_is_left_out(directory: Path) -> None:
    expected = image(directory)
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(directory)
        try:
            listening.bind("socket")
        finally:
            os.chdir(here)
    assert image(directory) == expected


LINK = {"type": tarfile.LNKTYPE}


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ([("../x", {}, b"x")], r"has \.\./x in it, which leads out of the root"),
        ([("a/../../x", {}, b"x")], "which leads out of the root"),
        ([("/../x", {}, b"x")], "which leads out of the root"),
        ([("x", LINK | {"linkname": "../../etc/passwd"}, b"")], "leads out of the root"),
        ([("x", LINK | {"linkname": "/etc/passwd"}, b"")], "link to etc/passwd, which is no file"),
        ([("x", LINK | {"linkname": "x"}, b"")], "link to x, which is no file"),
        (
            [("x", LINK | {"linkname": "y"}, b""), ("y", LINK | {"linkname": "x"}, b"")],
            "which is no file",
        ),
        ([("x", {}, b"1"), ("./x", {}, b"2")], "has x in it twice"),
        (
            [
                ("lib", {"type": tarfile.SYMTYPE, "linkname": "/etc"}, b""),
                ("lib/passwd", {}, b"x"),
            ],
            "has lib/passwd in it, and lib is no directory",
        ),
        ([("a", {}, b"x"), ("a/b", {}, b"x")], "a is no directory"),
        ([], "is empty"),
        ([("manifest.json", {}, b"[]"), ("repositories", {}, b"{}")], "docker export"),
        ([("n" * 300, {}, b"x")], "no image could be made"),
    ],
)
def test_refused(
    tmp_path: Path, members: list[tuple[str, dict[str, Any], bytes]], sentence: str
) -> None:
    with pytest.raises(RootError, match=sentence):
        make(handmade(tmp_path / "a.tar", *members), tmp_path / "image", MKFS)


@pytest.mark.parametrize("kind", ["plain", "gz", "xz", "zst"])
def test_cut_short(directory: Path, tmp_path: Path, kind: str) -> None:
    content = pack(directory, "whole.tar").read_bytes()
    packed = {
        "plain": lambda data: data,
        "gz": gzip.compress,
        "xz": lzma.compress,
        "zst": zstandard.compress,
    }[kind](content.rstrip(b"\0"))
    path = tmp_path / "a.tar"
    for size in (len(packed) - 1, len(packed) // 2, 7):
        path.write_bytes(packed[:size])
        with pytest.raises(RootError, match=r"a\.tar (is no tarball|is damaged|ends too early)"):
            make(path, tmp_path / "image", MKFS)


def test_cut_short_between_two_files(tmp_path: Path) -> None:
    path = handmade(tmp_path / "a.tar", ("a", {}, b"x" * 512), ("b", {}, b"y"))
    path.write_bytes(path.read_bytes()[:1024])
    with pytest.raises(RootError, match="ends too early: it is only the beginning"):
        make(path, tmp_path / "image", MKFS)


def test_a_damaged_header_is_seen(tmp_path: Path) -> None:
    path = handmade(tmp_path / "a.tar", ("a", {}, b"x" * 512), ("b", {}, b"y"))
    content = bytearray(path.read_bytes())
    content[1024 + 10] ^= 1
    path.write_bytes(content)
    with pytest.raises(RootError, match=r"damaged at byte 1,024"):
        make(path, tmp_path / "image", MKFS)


# --- the command line


@pytest.fixture
def used(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Calls `rooted.job` on a root, with a store and an evaluation that tell what they are told."""
    monkeypatch.setenv("REWIND_MKFS_EROFS", MKFS)
    told: dict[str, Any] = {}

    def add(name: str, path: Path) -> Path:
        told["image"] = path.read_bytes()
        return Path("/nix/store") / name

    def evaluate(expression: str, data: dict[str, Any]) -> str:
        told["data"] = data
        return "/nix/store/x.drv"

    monkeypatch.setattr(rooted.nix, "add", add)
    monkeypatch.setattr(rooted.recording, "evaluate", evaluate)
    monkeypatch.setattr(rooted.drvs, "read", lambda path: path)

    def use(*command: str, root: Path = directory, **options: Any) -> dict[str, Any]:
        told.clear()
        given = {"cwd": None, "variables": (), **options}
        try:
            assert rooted.job(root, command, given["cwd"], given["variables"])
        except Failure:
            assert not told, "something was half made"
            raise
        return told

    return use


def test_a_job(used: Callable[..., dict[str, Any]], directory: Path) -> None:
    told = used("tool", "-x", cwd="/bin", variables=("A=b=c", "E="))
    assert told["data"] == {
        "image": "/nix/store/rewind-root",
        "command": ["tool", "-x"],
        "cwd": "/bin",
        "env": {"A": "b=c", "E": ""},
    }
    assert told["image"] == image(directory)
    # The image itself is the same root.
    again = used("tool", root=directory.with_name("image"))
    assert again["image"] == told["image"]


@pytest.mark.parametrize(
    ("command", "cwd"),
    [
        ("/bin/tool", None),
        ("./tool", "/bin"),
        ("bin/tool", None),
        ("/bin/abs", None),
        ("/bin/tool", "/tmp"),
        ("/proc/self/exe", "/proc/self"),
    ],
)
def test_commands(used: Callable[..., dict[str, Any]], command: str, cwd: str | None) -> None:
    assert used(command, cwd=cwd)


@pytest.mark.parametrize(
    ("command", "options", "sentence"),
    [
        ((), {}, "there is no command"),
        (("",), {}, "an empty string"),
        (("nothing",), {}, "has no nothing on its PATH, /usr/local/sbin"),
        (("tool",), {"variables": ("PATH=/sbin",)}, "has no tool on its PATH, /sbin"),
        (("./tool",), {}, r"has no \./tool"),
        (("/bin/out",), {}, "has no /bin/out"),
        (("/data",), {}, "/data in .* can't be executed"),
        (("/empty",), {}, "/empty in .* can't be executed"),
        (("tool",), {"cwd": "bin"}, "--cwd bin is no absolute path"),
        (("tool",), {"cwd": "/nowhere"}, "has no directory /nowhere"),
        (("tool",), {"cwd": "/data"}, "/data in .* is no directory"),
        (("tool",), {"variables": ("A",)}, "--env A is no NAME=VALUE"),
        (("tool",), {"variables": ("=b",)}, "--env =b is no NAME=VALUE"),
    ],
)
def test_refused_of_a_job(
    used: Callable[..., dict[str, Any]],
    command: tuple[str, ...],
    options: dict[str, Any],
    sentence: str,
) -> None:
    with pytest.raises(Failure, match=sentence):
        used(*command, **options)


def test_refused_roots(used: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    with pytest.raises(Failure, match="nowhere: No such file or directory"):
        used("x", root=tmp_path / "nowhere")
    with pytest.raises(Failure, match="is no directory, tarball or erofs image"):
        used("x", root=Path("/dev/null"))
    other = tmp_path / "other"
    other.write_text("no tarball\n" * 1000)
    with pytest.raises(Failure, match="is no tarball, or is damaged"):
        used("x", root=other)


def test_refused_images(
    used: Callable[..., dict[str, Any]], directory: Path, tmp_path: Path
) -> None:
    whole = image(directory)
    path = tmp_path / "short"
    path.write_bytes(whole[:-100])
    with pytest.raises(Failure, match="ends too early: an image has whole blocks"):
        used("tool", root=path)
    path.write_bytes(whole[:4096])
    with pytest.raises(Failure, match="is damaged"):
        used("tool", root=path)
