"""A process of the guest: its memory, its modules, and the stacks of its threads.

drgn unwinds a thread's stack from its registers, with the CFI of the files that are mapped, and
names what it finds by their DWARF. It gets the files' content from us: of what was compiled in the
run from the guest's page cache, of inputs from the layers.
"""

import contextlib
import os
import re
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
from drgn import (
    Architecture,
    FaultError,
    ModuleFileStatus,
    Object,
    Platform,
    Program,
    SymbolKind,
    TypeKind,
    sizeof,
)
from drgn.helpers.linux.mm import for_each_vma
from drgn.helpers.linux.xarray import xa_load

from rewind.inspect import InspectError
from rewind.inspect.answers import Frame, Page, Place
from rewind.inspect.expression import evaluate
from rewind.inspect.files import File, Files, of_file
from rewind.inspect.kernel import Kernel
from rewind.inspect.memory import PAGE, USER_END, AddressSpace, Fault
from rewind.inspect.names import qualified

FRAMES_MAX = 256
"""More frames of a stack are left out."""
MAPPINGS_MAX = 1 << 17
"""The kernel lets a process have half of these."""

PT_REGS = (
    *("r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8"),
    *("ax", "cx", "dx", "si", "di", "orig_ax", "ip", "cs", "flags", "sp", "ss"),
)
"""The kernel's ``struct pt_regs``, in order, 64 bits each."""

_SYMBOLS = b"\0.symtab\0"
"""In an ELF file's names of sections, if it was not stripped."""
_VM_READ, _VM_WRITE, _VM_EXEC, _VM_SHARED, _VM_MAYSHARE = 1, 2, 4, 8, 0x80
_MAPPING_ANON = 1
"""A bit of ``struct page``'s mapping."""

_ELF = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_PT_LOAD = 1
_PF_EXEC = 1

_MEMBERS_MAX = 32
"""Structures in one another."""
_CALLS_MAX = 4
"""Of which local variables are looked at."""
_REACHED_MAX = 200
"""Things that are looked at, of a call."""
_FOLLOWED = re.compile(r"\(\*([^()]*)\)\.")
_LIBRARY_TYPES = ("pthread_", "sem_t", "mutex", "condition_variable", "__gthread", "__pthread")

_STORE = "/nix/store/"
_ASSEMBLY = (".S", ".s", ".asm", ".sx")

# mov $15, %rax (or %eax); syscall: where a signal's handler returns to.
_SIGRETURN = (bytes.fromhex("48c7c00f0000000f05"), bytes.fromhex("b80f0000000f05"))


@attrs.frozen
class Mapping:
    """A part of a process's address space."""

    start: int
    end: int
    flags: int
    offset: int = 0
    """Where in the file it begins."""
    file: File | None = None

    @property
    def access(self) -> str:
        """As in ``/proc/PID/maps``: "r-xp", the last letter "s" for one that is shared."""
        bits = ((_VM_READ, "r"), (_VM_WRITE, "w"), (_VM_EXEC, "x"))
        shared = "s" if self.flags & _VM_MAYSHARE else "p"
        return "".join(letter if self.flags & bit else "-" for bit, letter in bits) + shared

    @property
    def executable(self) -> bool:
        """Whether instructions in it can be executed."""
        return bool(self.flags & _VM_EXEC)


@attrs.frozen
class Segment:
    """What an ELF file wants to have mapped."""

    address: int
    offset: int
    file_size: int
    size: int
    executable: bool


@attrs.define
class Module:
    """A file whose code a process has mapped."""

    path: str
    bias: int
    """What is added to the file's addresses."""
    own: bool
    """Whether it is of the program itself."""
    stubs: list[tuple[int, int]] = attrs.field(factory=list)
    """Where it only jumps to other modules."""
    why: str | None = None
    """Why there are no source lines, if there are none."""
    build_id: str | None = None
    """In hexadecimal."""


def segments(data: bytes) -> list[Segment]:
    """What the ELF file *data* wants to have mapped; nothing, if it is none."""
    try:
        ident, _, _, _, _, start, _, _, _, size, count, *_ = _ELF.unpack_from(data)
        if ident[:6] != b"\x7fELF\2\1" or size != _PROGRAM_HEADER.size:
            return []
        headers = [_PROGRAM_HEADER.unpack_from(data, start + at * size) for at in range(count)]
    except struct.error:
        return []
    return [
        Segment(address, offset, file_size, memory_size, bool(flags & _PF_EXEC))
        for kind, flags, offset, address, _, file_size, memory_size, _ in headers
        if kind == _PT_LOAD
    ]


def stubs(data: bytes) -> list[tuple[int, int]]:
    """Where the ELF file *data* has the jumps by which it calls other files: sections ``.plt…``."""
    try:
        _, _, _, _, _, _, start, _, _, _, _, size, count, names = _ELF.unpack_from(data)
        headers = [_SECTION_HEADER.unpack_from(data, start + at * size) for at in range(count)]
        strings = headers[names][4] if headers else 0
        return [
            (address, address + length)
            for name, _, _, address, _, length, *_ in headers
            if data.startswith(b".plt", strings + name)
        ]
    except (struct.error, IndexError):
        return []


class Process:
    """The address space *mm*, the kernel's ``struct mm_struct *``.

    :raises InspectError: if it makes no sense.
    """

    def __init__(
        self, kernel: Kernel, files: Files, mm: Any, debug_directories: Sequence[Path] = ()
    ) -> None:
        assert kernel.memory is not None
        self._kernel = kernel
        self._files = files
        self._debug_directories = debug_directories
        self._space = AddressSpace(kernel.memory, kernel.physical(int(mm.pgd)))
        self.mappings = list(_mappings(mm))
        self._starts = [mapping.start for mapping in self.mappings]
        self.executable = of_file(mm.exe_file) if mm.exe_file else None
        self._vdso = int(mm.context.vdso)
        self._vdso_image = mm.context.vdso_image
        self._content: dict[int, bytes] = {}
        self._modules: dict[int, Module] = {}
        self._program: Program | None = None
        self._why_not: str | None = None
        """Why the files that were made in the run are not used, if they are not."""

    def close(self) -> None:
        """Let go of the files. drgn's programs are not garbage-collected: this one knows us."""
        self._program = None

    def mapping(self, address: int) -> Mapping | None:
        """The mapping that *address* is in."""
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address >= self.mappings[at].end:
            return None
        return self.mappings[at]

    def pages(self, address: int, count: int) -> Iterator[Page]:
        """Where in the machine's memory *count* bytes at *address* are, page by page.

        :raises InspectError: if something of it is not mapped.
        """
        end = address + count
        while address < end:
            size = min(end, (address | (PAGE - 1)) + 1) - address
            mapping = self.mapping(address)
            if mapping is None:
                raise InspectError(f"nothing is mapped at {address:#x}")
            physical: int | None
            try:
                physical = self._space.translate(address)
            except Fault:
                physical = self._cached(mapping, address)
            yield Page(
                address,
                size,
                physical,
                file=mapping.file.path if mapping.file else None,
                offset=mapping.offset + address - mapping.start,
                shared=bool(mapping.flags & _VM_SHARED),
                anonymous=physical is not None and self._is_anonymous(physical),
            )
            address += size

    def _is_anonymous(self, physical: int) -> bool:
        program = self._kernel.program
        kind = program.type("struct page")
        base = int(self._kernel.variable("vmemmap_base"))
        page = Object(program, kind, address=base + physical // PAGE * sizeof(kind))
        head = int(page.compound_head)
        if head & 1:
            # One of several that are one.
            page = Object(program, kind, address=head - 1)
        return bool(int(page.mapping) & _MAPPING_ANON)

    def _cached(self, mapping: Mapping, address: int) -> int | None:
        """Where shared memory is that this process has not touched, but another has."""
        if mapping.file is None or not mapping.flags & _VM_SHARED:
            return None
        offset = mapping.offset + address - mapping.start
        found = xa_load(mapping.file.inode.i_mapping.i_pages.address_of_(), offset // PAGE)
        # An odd one is no page.
        if not found or int(found) & 1:
            return None
        kind = self._kernel.program.type("struct page")
        head = Object(self._kernel.program, kind, address=int(found))
        number = (int(found) - int(self._kernel.variable("vmemmap_base"))) // sizeof(kind)
        return int((number - int(head.index)) * PAGE + offset)

    def evaluate(self, text: str, registers: Sequence[int]) -> Place:
        """Where what *text* names is, for a thread that has the *registers*.

        A local variable is one of the innermost call of the program's own code.

        :raises InspectError: if there is no such thing in memory.
        """
        program = self._load()
        here: Any = None
        try:
            trace = _trace(program, struct.pack(f"<{len(PT_REGS)}Q", *registers))
            here = next((frame for frame in trace if self._is_own_code(frame)), None)
        # drgn raises Exception itself. There are still the variables that are in no function.
        except Exception as error:
            self._distrust(str(error))
            program = self._load()

        def look_up(name: str) -> Any:
            if here is not None:
                with contextlib.suppress(KeyError):
                    return here[name]
            try:
                return program.variable(name)
            except LookupError:
                found = self._symbol(program, name)
                if found is not None:
                    return found
                why = next((one.why for one in self._modules.values() if one.own and one.why), None)
                if why is None:
                    raise
                raise InspectError(f"no variable {name} is known: {why}") from None
            # drgn raises Exception itself: of a thread-local, for one.
            except Exception as error:
                raise InspectError(f"it can't be said where {name} is: {error}") from None

        return evaluate(text, look_up)

    def _symbol(self, program: Program, name: str) -> Any:
        """The variable *name* of a file without DWARF, as bytes; None if there is none."""
        for symbol in program.symbols(name):
            if symbol.kind == SymbolKind.OBJECT and symbol.size:
                byte = program.int_type("byte", 1, False)
                kind = program.array_type(byte, symbol.size)
                return Object(program, kind, address=symbol.address)
        return None

    def _is_own_code(self, frame: Any) -> bool:
        try:
            module = self._module(frame.pc)
        except LookupError:
            return False
        return module is not None and module.own

    def read(self, address: int, count: int) -> bytes:
        """What the process would read.

        :raises Fault: if it could not.
        """
        parts = []
        end = address + count
        while address < end:
            part = min(end, (address | (PAGE - 1)) + 1) - address
            page = self._page(address & -PAGE)
            parts.append(page[address % PAGE :][:part])
            address += part
        return b"".join(parts)

    def _page(self, address: int) -> bytes:
        try:
            return self._space.read_page(address)
        except Fault:
            mapping = self.mapping(address)
            if mapping is None or not mapping.flags & (_VM_READ | _VM_EXEC):
                raise
        # It was not touched yet: what the first touch would bring.
        if mapping.file is None:
            if mapping.start == self._vdso and self._vdso_image:
                return self._vdso_page(address - mapping.start)
            return bytes(PAGE)
        at = mapping.offset + address - mapping.start
        try:
            return self._read_file(mapping.file)[at : at + PAGE].ljust(PAGE, b"\0")
        except InspectError:
            raise Fault(address) from None

    def _vdso_page(self, offset: int) -> bytes:
        """A page of the vDSO, which the kernel has one of for all processes."""
        count = max(0, min(PAGE, int(self._vdso_image.size) - offset))
        try:
            data = self._kernel.read(int(self._vdso_image.data) + offset, count)
        except InspectError:
            raise Fault(self._vdso + offset) from None
        return data.ljust(PAGE, b"\0")

    def _read_file(self, file: File) -> bytes:
        key = int(file.inode)
        if key not in self._content:
            self._content[key] = self._files.read(file)
        return self._content[key]

    def variable(self, address: int) -> str | None:
        """The variable at *address*, as ``name``, ``name.member[3]`` or ``name+0x10``.

        None if there is none, or nothing tells of it: such as of one on a stack, or that was
        allocated.
        """
        program = self._load()
        try:
            symbol = program.symbol(address)
        except LookupError:
            return None
        if symbol.kind not in (SymbolKind.OBJECT, SymbolKind.TLS, SymbolKind.COMMON):
            return None
        name = qualified(symbol.name) or symbol.name
        offset = address - symbol.address
        try:
            variable = program.variable(symbol.name)
            if variable.address_ == symbol.address:
                path, offset = _member(variable.type_, offset)
                name += path
        # There is no DWARF of it, or drgn raises Exception itself for what is wrong with it: the
        # symbol says enough.
        except Exception:
            offset = address - symbol.address
        return name + (f"+{offset:#x}" if offset else "")

    def reached(self, address: int, registers: Sequence[int]) -> str | None:
        """What is at *address*, as a thread that has the *registers* would name it.

        It is a variable, or is in one of the local variables of the program's own innermost calls,
        or in what these point to: as ``p->next``. None if it is nothing of those.
        """
        found = self.variable(address)
        if found is not None:
            return found
        program = self._load()
        try:
            trace = _trace(program, struct.pack(f"<{len(PT_REGS)}Q", *registers))
            own = [frame for frame in trace if self._is_own_code(frame)]
        # drgn raises Exception itself. Then there are no local variables.
        except Exception:
            return None
        for frame in own[:_CALLS_MAX]:
            found = _reach(frame, address)
            if found is not None:
                return found
        return None

    # --- stacks

    def frames(self, registers: Sequence[int]) -> list[Frame]:
        """The stack of a thread that has the *registers* (in the order of `PT_REGS`).

        Innermost first. Where it stops making sense, it ends.
        """
        state = dict(zip(PT_REGS, registers, strict=True))
        found = self._unwind(state)
        if len({frame.pc for frame in found}) == 1:
            # The C library has no CFI where it makes a thread, and what is written in assembly may
            # have none: then the return address is on top of the stack, if anywhere.
            try:
                (address,) = struct.unpack("<Q", self.read(state["sp"], 8))
            except Fault:
                return found
            if self._is_return(address):
                found += self._unwind({**state, "ip": address, "sp": state["sp"] + 8}, call=True)
        return found[:FRAMES_MAX]

    def _unwind(self, state: dict[str, int], call: bool = False) -> list[Frame]:
        """The frames from *state* on; a *call*'s if its address is one to return to."""
        program = self._load()
        if call:
            # drgn takes the first frame for one that was interrupted, and its address as it is.
            state = {**state, "ip": state["ip"] - 1}
        registers = struct.pack(f"<{len(PT_REGS)}Q", *(state[name] for name in PT_REGS))
        try:
            trace = _trace(program, registers)
        # drgn raises Exception itself. What it can't read was made in the run.
        except Exception as error:
            self._distrust(str(error))
            try:
                trace = _trace(self._load(), registers)
            except Exception as error:
                return [self._frame(state["ip"], why=f"the stack can't be unwound: {error}")]
        found: list[Frame] = []
        outermost = False
        for frame in trace:
            try:
                pc = frame.pc
            except LookupError:
                # Where a thread begins, the CFI says that nothing called it.
                break
            # Of an inlined call drgn has the frames before the one that they are in.
            if outermost and not (frame.interrupted or self._is_return(pc)):
                break
            found.append(self._describe(frame, pc + (call and not outermost)))
            outermost = outermost or not frame.is_inline
        return found or [self._frame(state["ip"])]

    def _describe(self, frame: Any, pc: int) -> Frame:
        source: tuple[str, int, int] | tuple[None, None, None]
        try:
            source = frame.source()
        except LookupError:
            source = None, None, None
        function, offset = frame.function_name, None
        if function is None and not str(source[0]).endswith(_ASSEMBLY):
            # Where a file's code ends, its last line would go on.
            source = None, None, None
        try:
            symbol = frame.symbol()
        except LookupError:
            pass
        else:
            offset = pc - symbol.address
            if not frame.is_inline:
                function = qualified(symbol.name, function) or function or symbol.name
        file, line, column = source
        return self._frame(
            pc,
            function=function,
            offset=offset,
            file=file,
            line=line or None,
            column=column or None,
            inlined=frame.is_inline,
        )

    def _frame(self, pc: int, **fields: Any) -> Frame:
        """A frame with what its module adds to *fields*."""
        module = self._module(pc)
        if module is None:
            mapping = self.mapping(pc)
            why = "nothing is mapped there" if mapping is None else "it is in no file"
            # What is in no file the program has written itself, as a JIT compiler does.
            own = mapping is not None and mapping.executable
            return Frame(pc, **{"why": why, "own": own, **fields})
        file = fields.get("file")
        address = pc - module.bias
        stub = any(start <= address < end for start, end in module.stubs)
        if stub:
            fields["why"] = "it is a jump to another module"
        elif file is None and "why" not in fields:
            fields["why"] = module.why or "its debug information does not have the place"
        return Frame(
            pc,
            module=module.path,
            address=address,
            build_id=module.build_id,
            # What a header of a library brings into a program is not the program's own either.
            own=module.own and not stub and not (file or "").startswith(_STORE),
            **fields,
        )

    def _module(self, address: int) -> Module | None:
        mapping = self.mapping(address)
        return self._modules.get(mapping.start) if mapping is not None else None

    def _is_return(self, address: int) -> bool:
        """Whether a call could return to *address*, or a signal's handler."""
        mapping = self.mapping(address - 1)
        if mapping is None or not mapping.executable:
            return False
        try:
            before = self.read(address - 7, 7)
            if before[2] == 0xE8 or any(
                # FF /2: a call by way of a register or memory, of two to seven bytes.
                before[-size] == 0xFF and before[-size + 1] >> 3 & 7 == 2
                for size in range(2, 8)
            ):
                return True
            return self.read(address, len(_SIGRETURN[0])).startswith(_SIGRETURN)
        except Fault:
            return False

    def _distrust(self, why: str) -> None:
        """From now on do without the files that were made in the run."""
        self._program = None
        self._modules = {}
        self._why_not = f"its debug information can't be read: {why}"

    # --- modules

    def _load(self) -> Program:
        """drgn's program for this process."""
        if self._program is None:
            program = Program(Platform(Architecture.X86_64))
            program.add_memory_segment(0, USER_END, self._read_for_drgn)
            self._program = program
            for mapping in self.mappings:
                if mapping.executable and mapping.start not in self._modules:
                    self._add_module(program, mapping)
        return self._program

    def _read_for_drgn(self, address: int, count: int, offset: int, physical: bool) -> bytes:
        try:
            return self.read(address, count)
        except Fault as error:
            raise FaultError("nothing is there", error.address) from None

    def _add_module(self, program: Program, mapping: Mapping) -> None:
        if mapping.file is not None:
            path, own = mapping.file.path, self._is_own(mapping.file)
            try:
                data = self._read_file(mapping.file)
            except InspectError as error:
                self._modules[mapping.start] = Module(path, 0, own, why=str(error))
                return
        elif mapping.start == self._vdso:
            path, own = "[vdso]", False
            data = self.read(mapping.start, mapping.end - mapping.start)
        else:
            return
        trusted = self._why_not is None or mapping.file is None or mapping.file.is_input
        wanted = segments(data)
        bias = next(
            (
                mapping.start - mapping.offset - segment.address + segment.offset
                for segment in wanted
                if segment.executable
                and segment.offset < mapping.offset + mapping.end - mapping.start
                and segment.offset + segment.file_size > mapping.offset
            ),
            None,
        )
        if bias is None:
            self._modules[mapping.start] = Module(path, 0, own, why="it is in no ELF file")
            return
        module = Module(path, bias, own, stubs(data))
        for other in self.mappings:
            # A file's code may be mapped in pieces, and more than once.
            if (
                other.executable
                and other.file == mapping.file
                and (other.start - other.offset == mapping.start - mapping.offset)
            ):
                self._modules[other.start] = module
        if not trusted:
            module.why = self._why_not
            return
        start = bias + min(segment.address for segment in wanted)
        end = bias + max(segment.address + segment.size for segment in wanted)
        try:
            found = program.extra_module(path, start, create=True)
            found.address_range = (start, end)
            # drgn closes it.
            found.try_file(path, fd=_as_file(data), force=True)
            module.build_id = found.build_id.hex() if found.build_id else None
            module.why = self._find_debug_file(found, _SYMBOLS in data)
        # drgn raises Exception itself, of what a file that was made in the run may have done to it.
        except Exception as error:
            module.why = f"its debug information can't be read: {error}"

    def _find_debug_file(self, module: Any, symbols: bool) -> str | None:
        """Have drgn load what was separated from *module*; why there is none, if there is none.

        :param symbols: whether it has its symbols.
        """
        if module.debug_file_status == ModuleFileStatus.HAVE:
            return None
        what = "it has only symbols" if symbols else "it was stripped"
        if not module.build_id:
            return f"{what}, and has no build id by which its debug information is found"
        digits = module.build_id.hex()
        for directory in self._debug_directories:
            file = directory / ".build-id" / digits[:2] / f"{digits[2:]}.debug"
            if file.exists():
                module.try_file(str(file))
                if module.debug_file_status == ModuleFileStatus.HAVE:
                    return None
        return f"{what}, and the debug information of build id {digits} was not found"

    def _is_own(self, file: File) -> bool:
        return not file.is_input or (
            self.executable is not None and int(file.inode) == int(self.executable.inode)
        )


def _member(kind: Any, offset: int) -> tuple[str, int]:
    """What is at *offset* in the type *kind*, and the rest of the offset.

    What is inside of the C library's own types has no name for those who use them.
    """
    path = ""
    for _ in range(_MEMBERS_MAX):
        while kind.kind == TypeKind.TYPEDEF and not kind.name.startswith(_LIBRARY_TYPES):
            kind = kind.type
        if kind.kind == TypeKind.ARRAY and kind.length and sizeof(kind.type):
            number, offset = divmod(offset, sizeof(kind.type))
            path += f"[{number}]"
            kind = kind.type
            continue
        if kind.kind not in (TypeKind.STRUCT, TypeKind.CLASS) or (kind.tag or "").startswith(
            _LIBRARY_TYPES
        ):
            break
        for member in kind.members:
            begin = member.offset
            if begin <= offset < begin + sizeof(member.type):
                path += f".{member.name}" if member.name else ""
                kind, offset = member.type, offset - begin
                break
        else:
            break
    return path, offset


def _reach(frame: Any, address: int) -> str | None:
    """How what is at *address* can be named by the local variables of *frame*, nearest first."""
    todo: list[tuple[str, Any]] = []
    # What a macro, as those of <stdatomic.h>, has made for itself has other names, too.
    for name in sorted(frame.locals(), key=lambda name: name.startswith("__")):
        # drgn raises Exception itself, for what was optimised away or has no type.
        with contextlib.suppress(Exception):
            todo.append((name, frame[name]))
    for _ in range(_REACHED_MAX):
        if not todo:
            break
        name, thing = todo.pop(0)
        # As above; of functions and what is not complete there is no size.
        with contextlib.suppress(Exception):
            begin = thing.address_
            if begin is not None and begin <= address < begin + sizeof(thing):
                path, rest = _member(thing.type_, address - begin)
                return _arrows(name + path) + (f"+{rest:#x}" if rest else "")
            todo += _pointed_to(name, thing)
    return None


def _pointed_to(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """What *thing*, a pointer or a structure with pointers, leads to, with its names."""
    kind = _plain(thing.type_)
    if kind.kind == TypeKind.POINTER:
        if _plain(kind.type).kind != TypeKind.VOID and thing.value_():
            pointed = thing[0]
            yield f"(*{name})", pointed
    elif kind.kind in (TypeKind.STRUCT, TypeKind.CLASS):
        for member in kind.members:
            if member.name and _plain(member.type).kind == TypeKind.POINTER:
                yield f"{name}.{member.name}", thing.member_(member.name)


def _arrows(name: str) -> str:
    """``p->next`` for ``(*p).next``, and ``*p`` for ``(*p)``."""
    while (found := _FOLLOWED.search(name)) is not None:
        name = f"{name[: found.start()]}{found[1]}->{name[found.end() :]}"
    return name[1:-1] if re.fullmatch(r"\(\*[^()]*\)", name) else name


def _plain(kind: Any) -> Any:
    """*kind* without the names that typedef has given it."""
    while kind.kind == TypeKind.TYPEDEF:
        kind = kind.type
    return kind


def _mappings(mm: Any) -> Iterator[Mapping]:
    last = 0
    for count, vma in enumerate(for_each_vma(mm)):
        start, end = int(vma.vm_start), int(vma.vm_end)
        if count >= MAPPINGS_MAX or not last <= start < end <= USER_END:
            raise InspectError("a process's mappings make no sense")
        last = end
        file = vma.vm_file
        yield Mapping(
            start,
            end,
            int(vma.vm_flags),
            int(vma.vm_pgoff) * PAGE if file else 0,
            of_file(file) if file else None,
        )


def _trace(program: Program, registers: bytes) -> Any:
    """The stack from *registers*, a ``struct pt_regs``, on.

    drgn knows that by its name and size. Of a type that has members it would never let go, nor then
    of the program.
    """
    pt_regs = program.struct_type("pt_regs", len(registers), ())
    return program.stack_trace(Object.from_bytes_(program, pt_regs, registers))


def _as_file(data: bytes) -> int:
    """A file descriptor of a file with *data*."""
    file = os.memfd_create("rewind-module", os.MFD_CLOEXEC)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
    except BaseException:
        os.close(file)
        raise
    return file
