"""The files that gdb reads: programs, libraries and sources as they are in the run.

They are put into a directory that gdb is told of: a system root with each file that the process has
mapped as code, and the sources that were compiled in the run. An input that is in this machine's
store is not copied.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path, PurePosixPath

from elftools.common.exceptions import ELFError
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.elf.elffile import ELFFile

from rewind.gdb.libraries import clean
from rewind.gdb.session import Session
from rewind.inspect import InspectError, NoSuchFile

STORE = PurePosixPath("/nix/store")
SOURCES_MAX = 20_000
"""Source files that are copied."""
SOURCE_MAX = 16 << 20
"""Bytes of a source file."""


class Mirror:
    """A copy in *directory* of what gdb reads of *session*'s process.

    :param complain: told in one sentence what could not be copied.
    """

    def __init__(self, session: Session, directory: Path, complain: Callable[[str], None]) -> None:
        self._session = session
        self.root = directory / "root"
        """What gdb takes for ``/`` where it looks for programs and libraries."""
        self.sources = directory / "sources"
        """The same for sources."""
        self._complain = complain
        self._seen: set[tuple[str, int]] = set()
        self._copied: set[str] = set()
        self.root.mkdir(parents=True)
        self.sources.mkdir()

    def update(self) -> None:
        """Copy what the process has mapped by now."""
        for mapped in self._session.layout().mapped:
            if not mapped.executable or mapped.path is None:
                continue
            key = mapped.path, mapped.inode
            if key in self._seen:
                continue
            self._seen.add(key)
            path = PurePosixPath(clean(mapped.path))
            if not path.is_absolute() or ".." in path.parts:
                continue
            target = self.root / path.relative_to("/")
            try:
                if mapped.is_input and path.is_relative_to(STORE) and Path(path).is_file():
                    self._link(path)
                    continue
                data = self._session.read_mapped(mapped.start)
                _write(target, data)
            except (InspectError, OSError) as error:
                self._complain(f"{path} can't be read: {error}")
                continue
            if not mapped.is_input:
                self._copy_sources(path, data)

    def substitutions(self) -> list[tuple[str, str]]:
        """For gdb's ``set substitute-path``: the directories of the run that are copied."""
        return [(f"/{entry.name}", str(entry)) for entry in sorted(self.sources.iterdir())]

    def _link(self, path: PurePosixPath) -> None:
        """Have the store path that *path* is in appear, which is in this machine's store."""
        package = STORE.joinpath(path.relative_to(STORE).parts[0])
        target = self.root / package.relative_to("/")
        if not target.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(package)

    def _copy_sources(self, program: PurePosixPath, data: bytes) -> None:
        """Copy what *program* was made of, as far as it is still there."""
        try:
            names = sorted(set(sources(data)))
        # Whatever a program that was made in the run may do to a reader of DWARF.
        except (ELFError, ValueError, KeyError, IndexError, OverflowError, RecursionError) as error:
            self._complain(f"the sources of {program} can't be told: {error}")
            return
        for name in names[:SOURCES_MAX]:
            path = PurePosixPath(os.path.normpath(name))
            if name in self._copied or not path.is_absolute() or path.is_relative_to(STORE):
                continue
            self._copied.add(name)
            with contextlib.suppress(NoSuchFile, InspectError):
                # Many are not there: those of what was linked to it.
                text = self._session.read_file(str(path))
                if len(text) <= SOURCE_MAX:
                    target = self.sources / path.relative_to("/")
                    _write(target, text)
                    # gdb warns of sources that are younger than the program.
                    os.utime(target, (0, 0))


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def sources(program: bytes) -> Iterator[str]:
    """The paths of the source files that the DWARF of the ELF file *program* names."""
    file = ELFFile(BytesIO(program))
    if not file.has_dwarf_info():
        return
    dwarf = file.get_dwarf_info(relocate_dwarf_sections=False)
    for unit in dwarf.iter_CUs():
        top = unit.get_top_DIE()
        directory = _text(top.attributes.get("DW_AT_comp_dir"))
        name = _text(top.attributes.get("DW_AT_name"))
        if name:
            yield str(PurePosixPath(directory, name))
        yield from _listed(dwarf, unit, directory)


def _listed(dwarf: DWARFInfo, unit: object, directory: str) -> Iterator[str]:
    """The files in a unit's line table."""
    program = dwarf.line_program_for_CU(unit)
    if program is None:
        return
    header = program.header
    directories: Sequence[object] = header["include_directory"]
    # Before DWARF 5 directory 0 is the unit's own, and the list begins with the first.
    offset = 0 if header["version"] >= 5 else 1
    for entry in header["file_entry"]:
        index = entry["dir_index"] - offset
        inner = _name(directories[index]) if 0 <= index < len(directories) else ""
        yield str(PurePosixPath(directory, inner, _name(entry["name"])))


def _text(attribute: object) -> str:
    return _name(getattr(attribute, "value", b""))


def _name(value: object) -> str:
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else ""


def build_id_of(program: bytes) -> str | None:
    """The build id of the ELF file *program*, in hexadecimal; None if it has none."""
    try:
        for segment in ELFFile(BytesIO(program)).iter_segments("PT_NOTE"):
            for note in segment.iter_notes():
                if note["n_type"] == "NT_GNU_BUILD_ID":
                    return str(note["n_desc"])
    # What is in it was made by whoever made the program.
    except (ELFError, ValueError, KeyError, OverflowError):
        return None
    return None
