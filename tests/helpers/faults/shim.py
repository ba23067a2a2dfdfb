"""shim.c from Python: compiled at first use, one scene a run of envmgr, and what it saw."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.places import CACHE

_SOURCE = Path(__file__).with_name("shim.c")
_HEAD = struct.Struct("<QIIiiQQQ")  # struct scene, up to `roots`
_ROOTS, _ROOT = 8, 512
_ROW = struct.Struct("<iII20s16s208s")  # struct row
_ROWS = 20_000

SPACE, CHANGE, REMOVE, SYNC = 1, 2, 4, 8
"""What a call needs: room on the disk; a file that can be changed; a folder that can; the disk itself (fsync, close)."""
ALL = SPACE | CHANGE | REMOVE | SYNC

NOTHING, ONCE, FROM_HERE, KILL_CALLER, KILL_FIRST = range(5)
"""What goes wrong at a call: it fails, all from it on fail; its process is killed, or the one that was started first."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`how` as above, `error` an errno, at the first call from `at` on (the first is 1) that is of one of `kinds`."""

    at: int
    how: int
    kinds: int = ALL
    error: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """One call that was seen; `hit` by the fault. Of long paths the end."""

    pid: int
    kind: int
    hit: bool
    name: str
    program: str
    path: str

    def __str__(self) -> str:
        return f"{self.program}[{self.pid}] {self.name} {self.path}"


def shim() -> Path:
    """The library, from the cache when this source was compiled before."""
    library = CACHE / f"faults-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:8]}.so"
    if not library.exists():
        CACHE.mkdir(exist_ok=True)
        part = library.with_suffix(f".{os.getpid()}")  # several workers may compile at once
        subprocess.run(
            ["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", part, _SOURCE, "-ldl"],
            check=True,
            capture_output=True,
            text=True,
        )
        part.rename(library)
    return library


@dataclass(frozen=True, slots=True)
class Scene:
    """The file that a run's processes share. It lies below none of `roots`."""

    file: Path

    @classmethod
    def make(cls, file: Path, roots: Sequence[Path], fault: Fault | None = None) -> Scene:
        fault = fault or Fault(0, NOTHING)
        assert len(roots) <= _ROOTS
        head = _HEAD.pack(fault.at, fault.how, fault.kinds, fault.error, 0, 0, 0, _ROWS)
        names = b"".join(os.fsencode(root).ljust(_ROOT, b"\0") for root in roots).ljust(_ROOTS * _ROOT, b"\0")
        with file.open("wb") as opened:
            opened.write(head + names)
            opened.truncate(_HEAD.size + _ROOTS * _ROOT + _ROWS * _ROW.size)
        file.chmod(0o666)  # envmgr may change to another user
        return cls(file)

    def environ(self) -> Mapping[str, str]:
        return {"LD_PRELOAD": str(shim()), "FAULT_SCENE": str(self.file)}

    def count(self) -> int:
        return int(self._head()[5])

    def hits(self) -> int:
        return int(self._head()[6])

    def calls(self) -> list[Call]:
        with self.file.open("rb") as opened:
            opened.seek(_HEAD.size + _ROOTS * _ROOT)
            rows = _ROW.iter_unpack(opened.read(min(self.count(), _ROWS) * _ROW.size))
            return [Call(pid, kind, bool(hit), *map(_text, texts)) for pid, kind, hit, *texts in rows]

    def _head(self) -> tuple[int, ...]:
        with self.file.open("rb") as opened:
            return _HEAD.unpack(opened.read(_HEAD.size))


def _text(data: bytes) -> str:
    return data.split(b"\0", 1)[0].decode(errors="replace")
