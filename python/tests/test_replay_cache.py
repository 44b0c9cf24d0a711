"""The directory of keyframes: shared, bounded, and nothing that anybody relies on."""

import errno
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from rewind.formats.schedule import Position
from rewind.replay import keyframe as keyframes
from rewind.replay.cache import Cache
from rewind.replay.keyframe import Keyframe, Level, Name
from test_replay_keyframe import PAGE, content, file_of, filled

KEY, OTHER = b"k" * 16, b"o" * 16
BASE = {0: 1}


def writes(name: Name, value: int, parent: Keyframe | None = None) -> Callable[[int], Keyframe]:
    """Writes a keyframe of a page full of *value*."""
    return lambda file: keyframes.write(
        file,
        name=name,
        position=Position(0, name.time),
        parent=parent,
        base=Level.of_memory(file_of(BASE)),
        state=b"state",
        memory=file_of({**BASE, name.time: value}),
    )


@attrs.define
class Place:
    """A directory for keyframes, and what was said of it."""

    path: Path
    said: list[str] = attrs.field(factory=list)

    def cache(self, limit: int = 1 << 30) -> Cache:
        """As another process has it."""
        return Cache(self.path, limit, self.said.append)

    def put(self, time: int, parent: Keyframe | None = None, key: bytes = KEY) -> Keyframe:
        name = Name(key, time)
        return self.cache().put(name, writes(name, 2, parent))

    @property
    def files(self) -> list[int]:
        """The times of the keyframes that are there."""
        return sorted(int(path.stem.partition("-")[2]) for path in self.path.glob("*.keyframe"))

    def file(self, time: int) -> Path:
        (path,) = self.path.glob(f"*-{time}.keyframe")
        return path

    def used(self, *times: int) -> None:
        """Have them been used in this order, long ago."""
        for number, one in enumerate(times):
            os.utime(self.file(one), (1000 + number,) * 2)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "cache" / "keyframes")


def test_others_find_it(place: Place) -> None:
    first = place.put(10)
    place.put(20, first)
    place.put(15, key=OTHER)
    found = place.cache().find([KEY], 19)
    assert found is not None and found.time == 10
    found = place.cache().find([KEY], 25)
    assert found is not None and [one.time for one in found.chain()] == [10, 20]
    assert filled(BASE, found)[20 * PAGE] == 2
    assert [name.time for name in place.cache().names([KEY, OTHER], 100)] == [20, 15, 10]
    assert place.cache().find([KEY], 9) is None
    assert place.said == []


def test_nothing_is_there(place: Place) -> None:
    assert place.cache().find([KEY], 100) is None
    assert place.cache().get(Name(KEY, 1)) is None
    assert not place.path.exists()
    assert place.said == []


@pytest.mark.parametrize("harm", ["cut", "bit", "version", "empty"])
def test_damage(place: Place, harm: str) -> None:
    """It is told of once, and what is below is used."""
    first = place.put(10)
    place.put(20, first)
    path = place.file(20)
    data = bytearray(path.read_bytes())
    match harm:
        case "cut":
            del data[-1:]
        case "bit":
            data[-100] ^= 4
        case "version":
            data[8] = 77
        case "empty":
            data.clear()
    path.write_bytes(data)
    found = place.cache().find([KEY], 100)
    assert found is not None and found.time == 10
    (said,) = place.said
    assert "a keyframe is damaged, and is made anew" in said and str(path) in said
    assert place.files == [10]
    place.put(20, found)
    assert place.cache().find([KEY], 100) is not None
    assert len(place.said) == 1


def test_damage_below(place: Place) -> None:
    """What stands on a damaged one goes with it, without another word."""
    place.put(20, place.put(10))
    path = place.file(10)
    path.write_bytes(path.read_bytes()[:-1])
    assert place.cache().find([KEY], 100) is None
    assert len(place.said) == 1
    assert place.files == []


def test_one_that_is_missing_below(place: Place) -> None:
    place.put(20, place.put(10))
    place.file(10).unlink()
    assert place.cache().find([KEY], 100) is None
    assert (place.files, place.said) == ([], [])


def test_a_file_under_another_name(place: Place) -> None:
    place.put(10)
    place.file(10).rename(place.path / f"{Name(KEY, 20)}.keyframe")
    assert place.cache().find([KEY], 100) is None
    assert len(place.said) == 1


def test_what_was_not_used_goes_first(place: Place) -> None:
    for time_ in (10, 20, 30):
        place.put(time_)
    size = place.file(10).stat().st_size
    place.used(10, 20, 30)
    # The oldest is used.
    assert place.cache().find([KEY], 10) is not None
    place.cache(3 * size).put(Name(KEY, 40), writes(Name(KEY, 40), 2))
    assert place.files == [10, 30, 40]


def test_what_stands_on_it_goes_before(place: Place) -> None:
    first = place.put(10)
    second = place.put(20, first)
    place.put(30, second)
    size = place.file(10).stat().st_size
    place.used(10, 20, 30)
    place.put(40)
    place.cache(2 * size).put(Name(KEY, 50), writes(Name(KEY, 50), 2))
    assert place.files == [40, 50]
    place.put(10)
    place.used(10)
    place.cache(3 * size).put(Name(KEY, 60), writes(Name(KEY, 60), 2))
    assert 10 not in place.files


def test_who_has_it_open_reads_on(place: Place) -> None:
    place.put(20, place.put(10))
    found = place.cache().find([KEY], 100)
    assert found is not None
    before = filled(BASE, found)
    place.cache(1).put(Name(KEY, 40), writes(Name(KEY, 40), 2))
    assert place.files == []
    assert filled(BASE, found) == before


def test_evicted_meanwhile(place: Place) -> None:
    """What would stand on one that is gone is not kept for others."""
    first = place.put(10)
    place.file(10).unlink()
    made = place.put(20, first)
    assert [one.time for one in made.chain()] == [10, 20]
    assert (place.files, list(place.path.glob("*.new"))) == ([], [])


def test_no_directory(tmp_path: Path) -> None:
    """Where none may be made it is as if there were none."""
    (tmp_path / "file").touch()
    place = Place(tmp_path / "file" / "keyframes")
    made = place.put(10)
    assert made.volatile
    assert filled(BASE, made)[10 * PAGE] == 2
    assert place.cache().find([KEY], 100) is None
    assert place.said == []


def test_size_of_nothing(place: Place) -> None:
    made = place.cache(0).put(Name(KEY, 1), writes(Name(KEY, 1), 2))
    assert made.time == 1
    assert not place.path.exists()


def test_a_full_disk(place: Place) -> None:
    """It is told, and the keyframe is there all the same, for this process."""
    name = Name(KEY, 10)
    write = writes(name, 2)
    calls = []

    def fails_first(file: int) -> Keyframe:
        calls.append(file)
        if len(calls) == 1:
            os.write(file, b"part")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file)

    cache = place.cache()
    made = cache.put(name, fails_first)
    assert filled(BASE, made)[10 * PAGE] == 2
    # It is told of once, and not tried again.
    assert cache.put(Name(KEY, 11), writes(Name(KEY, 11), 2)).time == 11
    assert place.said == [f"no keyframe can be kept in {place.path}: No space left on device"]
    assert [path.name for path in place.path.iterdir()] == []


def test_interrupted(place: Place) -> None:
    def interrupted(file: int) -> Keyframe:
        os.write(file, b"part")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.cache().put(Name(KEY, 10), interrupted)
    assert list(place.path.iterdir()) == []


KILLED = """
import os, signal, sys, tempfile
from pathlib import Path
from rewind.replay.cache import Cache
from rewind.replay.keyframe import Name

def write(file):
    os.write(file, b"part")
    print("writing", flush=True)
    signal.pause()

Cache(Path(sys.argv[1])).put(Name(b"k" * 16, 10), write)
"""


def test_killed(place: Place) -> None:
    """What a process leaves that was killed is nothing, and is collected."""
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(place.path)],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        (left,) = place.path.glob("*.new")
        old = time.time() - 3600
        os.utime(left, (old, old))
        # It still writes.
        place.put(20)
        assert left.exists()
        process.kill()
        process.wait()
    assert place.cache().find([KEY], 15) is None
    # One that is new may be about to be locked.
    os.utime(left)
    place.put(30)
    assert left.exists()
    os.utime(left, (old, old))
    place.put(40)
    assert list(place.path.glob("*.new")) == []
    assert place.files == [20, 30, 40]


def test_many_at_once(place: Place) -> None:
    """Some put, some use and all evict: what is found is whole."""
    size = place.put(1).size
    errors: list[BaseException] = []

    def use(number: int) -> None:
        try:
            cache = place.cache(4 * size)
            for count in range(25):
                name = Name(KEY, 2 + (number * 25 + count) % 40)
                below = cache.find([KEY], name.time - 1)
                if below is not None:
                    for one in below.chain():
                        assert filled(BASE, one)[one.time * PAGE] == 2
                cache.put(name, writes(name, 2, below))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (errors, place.said) == ([], [])
    assert sum(path.stat().st_size for path in place.path.glob("*.keyframe")) <= 4 * size


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_files_are_closed(place: Place) -> None:
    place.put(20, place.put(10))
    gc.collect()
    before = open_files()
    cache = place.cache()
    found = cache.find([KEY], 100)
    assert cache.get(Name(KEY, 10)) is not None
    assert open_files() == before + 2
    del found
    gc.collect()
    assert open_files() == before


def test_all_can_be_removed_while_somebody_uses_one(place: Place) -> None:
    place.put(1)
    used = place.put(2)
    assert place.cache().size() == sum(
        file.stat().st_size for file in place.path.glob("*.keyframe")
    )
    assert place.cache().clear() > 0
    assert not place.files and place.cache().size() == 0
    assert filled(BASE, used) == content(file_of({**BASE, 2: 2}))
    assert Cache(place.path / "nowhere").clear() == 0
