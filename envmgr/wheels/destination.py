"""The place where `installer` writes the files of a wheel: that of an install that is being made.

What RECORD has a sum of is written unhashed: every file of an install is read and hashed once more for its manifest,
and compared with RECORD there. Source: installer 1.1, destinations.py.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from installer.destinations import SchemeDictionaryDestination
from installer.records import Hash, RecordEntry
from installer.utils import Scheme, make_file_executable

_SHA256 = 32  # bytes
_PIECE = 1 << 18  # bytes that are inflated at once: they fit into the processor's cache


@dataclass
class Destination(SchemeDictionaryDestination):
    """`sums` maps files that are installed as they are, by their paths in the wheel, to RECORD's sha256 (hex digits)."""

    sums: Mapping[str, str] = field(default_factory=dict)
    _made: set[Path] = field(default_factory=set)

    def write_to_fs(self, scheme: Scheme, path: str, stream: BinaryIO, is_executable: bool) -> RecordEntry:
        """Write a file, and return its row of RECORD."""
        digest = bytes.fromhex(self.sums.get(path, ""))
        if scheme not in ("purelib", "platlib") or len(digest) != _SHA256 or not _is_plain(path):
            return super().write_to_fs(scheme, path, stream, is_executable)
        target = Path(f"{self.destdir}{self.scheme_dict[scheme]}/{path}")
        if target.parent not in self._made:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(target.parent)
        size = 0
        with target.open("wb") as file:
            while piece := stream.read(_PIECE):
                size += file.write(piece)
        if is_executable:
            make_file_executable(target)
        return RecordEntry(path, Hash("sha256", base64.urlsafe_b64encode(digest).decode().rstrip("=")), size)


def _is_plain(path: str) -> bool:
    return not path.startswith("/") and ".." not in path.split("/")
