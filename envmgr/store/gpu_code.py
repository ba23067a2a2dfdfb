"""The GPU code of an install, read from the headers of CUDA's fat binaries in its ELF files.

Source: the layout was found by comparison with cuobjdump on the libraries of PyTorch 2.1 (CUDA 12.1) and 2.15 (CUDA
13.2). A section `.nv_fatbin` or `__nv_relfatbin` is a row of containers, each a row of entries, whose headers give
kind, architecture and flags; only what follows the headers may be compressed. Bits 20 and 21 of the flags are `a` and
`f` of an architecture.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO

from envmgr.catalog.gpus import Code, runs

_SECTIONS = (".nv_fatbin", "__nv_relfatbin")
_CONTAINER, _MAGIC = struct.Struct("<IHHQ"), 0xBA55ED50
# Kind, version, length of the header, of the rest, architecture, flags.
_ENTRY, _LEAST = struct.Struct("<HHIQ12xI8xQ"), 64
_PTX, _MACHINE = 1, 2
# Of one file, which a stranger may have made: a count that never ends, or sections that lie over each other.
_MOST_SECTIONS, _MOST_READ = 1 << 16, 64
_ONLY = {0: "", 1: "a", 2: "f"}
_DEFAULTS = (Code(5, 2), Code(7, 5))  # of CUDA 11 and 12, and of 13
_ELF = b"\x7fELF"
# Source: the files of NVIDIA's packages in the locks of the shipped wheels, and of its toolkit.
_OF_NVIDIA = re.compile(
    r"lib(cu(blas|dart|dnn|dss|fft|file|pti|rand|solver|sparse|tensor)|nccl|npp|nv(JitLink|blas|jpeg|rtc|shmem|vm|ToolsExt))"
)


def measure(root: Path, check: Callable[[], None] = lambda: None) -> tuple[str, ...] | None:
    """Return the capabilities (`8.6`, `9.0+PTX`, `9.0a`) for which every binary with GPU code has some; None if no
    binary has any.

    NVIDIA's own libraries count only if there is nothing else: a program that uses them does without those that have no
    code for its GPU. `check` is called for each file and may raise. A file that cannot be read as ELF has no code.
    """

    def each() -> Iterator[tuple[str, Counter[Code]]]:
        for path in _binaries(root):
            check()
            with suppress(OSError), path.open("rb") as file:
                yield path.name, code_of(file, file.fileno())

    return common_code(each())


def common_code(binaries: Iterable[tuple[str, Counter[Code]]]) -> tuple[str, ...] | None:
    """Return as `measure` for binaries of these names, with what `code_of` found in each."""
    found = [(name, codes) for name, codes in binaries if codes]
    real = [(name, codes) for name, codes in found if not _is_stub(codes)] or found
    own = [codes for name, codes in real if not _OF_NVIDIA.match(name)]
    return _of_all(own or [codes for _, codes in real])


def _is_stub(codes: Counter[Code]) -> bool:
    """Return whether this is what CUDA's compiler puts into a library without GPU code of its own: one entry for its
    default.
    """
    return sum(codes.values()) == 1 and next(iter(codes)) in _DEFAULTS


def may_be_binary(name: str, mode: int) -> bool:
    return ".so" in name or bool(mode & 0o111)


def code_of(file: IO[bytes], number: int, start: int = 0) -> Counter[Code]:
    """Return the entries of each kind in one ELF file: machine code without `ptx`, code to be compiled with it.

    Its bytes are those of the open file `number`, from `start` on. A file that is no ELF has none.
    """
    found: Counter[Code] = Counter()
    if file.read(len(_ELF)) != _ELF:
        return found
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        sections = islice(ELFFile(file).iter_sections(), _MOST_SECTIONS)
        places = [(s["sh_offset"], s["sh_size"]) for s in sections if s.name in _SECTIONS][:_MOST_READ]
    except (ELFError, OSError, ValueError):  # OSError: a table that lies where no file can be
        return found
    if places:
        # Mapped and not read: a library may have gigabytes of code, and only the headers are needed.
        with mmap.mmap(number, 0, access=mmap.ACCESS_READ) as data:
            for offset, size in places:
                found.update(_entries(data, start + offset, min(start + offset + size, len(data))))
    return found


def _binaries(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            path = Path(folder, name)
            # A file counts once, and `libX.so` is often a link to `libX.so.1` beside it.
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) and may_be_binary(name, mode):
                yield path


def _entries(data: mmap.mmap, at: int, end: int) -> Iterator[Code]:
    while at + _CONTAINER.size <= end:
        magic, _, head, length = _CONTAINER.unpack_from(data, at)
        if magic != _MAGIC:
            at += 8  # between containers there may be nothing
            continue
        entry, at = at + head, min(at + head + length, end)
        while entry + _LEAST <= at:
            kind, _, own, rest, arch, flags = _ENTRY.unpack_from(data, entry)
            if own < _LEAST:
                break
            if kind in (_PTX, _MACHINE) and (flags >> 20) & 3 in _ONLY:
                yield Code(arch // 10, arch % 10, _ONLY[(flags >> 20) & 3], ptx=kind == _PTX)
            entry += own + rest


def _of_all(files: Sequence[Counter[Code]]) -> tuple[str, ...] | None:
    """Return what all of the files run on, in the words of a recipe."""
    if not files:
        return None
    archs = sorted({(c.major, c.minor) for each in files for c in each if not c.ptx})
    found: list[Code] = []
    compiled: list[tuple[int, int]] = []
    for major, minor in archs:
        text = f"{major}.{minor}"
        machine = [[c for c in each if not c.ptx] for each in files]
        if all(runs(codes, text, jit=False) for codes in machine):
            own = [any((c.major, c.minor) == (major, minor) for c in codes) for codes in machine]
            if sum(own) * 2 >= len(files) or all(c.major != major for c in found):
                found.append(
                    Code(major, minor, _narrowest(machine, text))
                )  # else most run on code for an earlier one, which is reported
        elif all(runs(each, text, jit=True) for each in files):
            compiled.append((major, minor))
    if base := _ptx(files, archs, compiled):
        found = [c for c in found if (c.major, c.minor) != base] + [Code(*base, ptx=True)]
    return tuple(map(str, sorted(found))) or None


def _narrowest(machine: Sequence[Sequence[Code]], text: str) -> str:
    """Return whether all have code for the capability and those after it (empty), for its family (`f`) or only for it
    (`a`).
    """
    for only, allowed in (("", ("",)), ("f", ("", "f"))):
        if all(runs([c for c in codes if c.only in allowed], text, jit=False) for codes in machine):
            return only
    return "a"


def _ptx(
    files: Sequence[Counter[Code]], archs: Sequence[tuple[int, int]], compiled: Sequence[tuple[int, int]]
) -> tuple[int, int] | None:
    """Return the capability from which the driver compiles what is lacking: if only that is known to be newer, or all
    have PTX.
    """
    newest = [max(((c.major, c.minor) for c in each if c.ptx and not c.only), default=None) for each in files]
    if not compiled:
        return min(each for each in newest if each) if all(newest) else None
    lacking = [
        each
        for each, codes in zip(newest, files, strict=True)
        if not all(runs([c for c in codes if not c.ptx], f"{major}.{minor}", jit=False) for major, minor in compiled)
    ]
    base = min(each for each in lacking if each)
    later = [arch for arch in archs if arch > base]
    return base if all(runs(codes, f"{a}.{b}", jit=True) for a, b in later for codes in files) else None
