"""The place where `installer` writes the files of a wheel: that of an install that is being made.

What RECORD has a sum of is written unhashed: every file of an install is read and hashed once more for its manifest,
and compared with RECORD there. Source: installer 1.1, destinations.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from installer.destinations import SchemeDictionaryDestination
from installer.records import Hash, RecordEntry
from installer.utils import Scheme, make_file_executable

_PIECE = 1 << 18  # bytes that are inflated at once: they fit into the processor's cache


@dataclass
class Destination(SchemeDictionaryDestination):
    """`sums` maps files that are installed as they are, by their paths in the wheel, to RECORD's sha256."""

    sums: Mapping[str, Hash] = field(default_factory=dict)

    def write_to_fs(self, scheme: Scheme, path: str, stream: BinaryIO, is_executable: bool) -> RecordEntry:
        """Write a file, and return its row of RECORD."""
        if scheme not in ("purelib", "platlib") or path not in self.sums:
            return super().write_to_fs(scheme, path, stream, is_executable)
        target = self._path_with_destdir(scheme, path)
        if not target.parent.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
        size = 0
        with target.open("wb") as file:
            while piece := stream.read(_PIECE):
                size += file.write(piece)
        if is_executable:
            make_file_executable(target)
        return RecordEntry(path, self.sums[path], size)
