"""Where keyframes are kept, and how many of them."""

from pathlib import Path

import pytest

from rewind.cli import places
from rewind.cli.errors import Failure


@pytest.mark.parametrize(
    ("home", "expected"),
    [
        ("/cache", "/cache/rewind/keyframes"),
        ("", "/home/me/.cache/rewind/keyframes"),
        ("relative", "/home/me/.cache/rewind/keyframes"),
    ],
)
def test_directory(monkeypatch: pytest.MonkeyPatch, home: str, expected: str) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    assert places.keyframes() == Path(expected)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", 7),
        ("0", 0),
        ("4096", 4096),
        ("5k", 5 << 10),
        ("500M", 500 << 20),
        ("2G", 2 << 30),
        ("2GiB", 2 << 30),
        ("1TB", 1 << 40),
    ],
)
def test_size(monkeypatch: pytest.MonkeyPatch, text: str, size: int) -> None:
    monkeypatch.setenv("REWIND_CACHE_SIZE", text)
    assert places.keyframes_size(7) == size


@pytest.mark.parametrize("text", ["-1", "2 G", "1.5G", "G", "many", "2E", "2iB", "٣"])
def test_no_size(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("REWIND_CACHE_SIZE", text)
    with pytest.raises(Failure, match="which is no size such as 500M or 2G"):
        places.keyframes_size(7)
