"""What EasyBuild is, as one sha256: the same wherever it is installed, by pip or by uv, with or without bytecode.

It is taken over this text, in UTF-8, with a line for each `.py` and `.eb` file below the folders `easybuild` of an environment
(that of the packages, that of easyconfigs and scripts), sorted by path:

    envmgr easybuild 1
    easybuild/base/__init__.py <sha256>
    easybuild/easyconfigs/z/zlib/zlib-1.3.1.eb <sha256>

What the three packages have elsewhere (`test`, `contrib`) never runs, and does not count.
"""

from __future__ import annotations

import base64
import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from envmgr.system.files import sha256_bytes

_FORM = "envmgr easybuild 1"
_KINDS = (".py", ".eb")
# Framework and easyblocks both bring this file, each with its own comments, and what is installed last wins: both are in the
# sum, as their lists of files (RECORD) have them.
_SHARED = "easybuild/__init__.py"


@dataclass(frozen=True, slots=True)
class Places:
    """Where an environment has EasyBuild: `packages` is its site-packages; below `home` are easyconfigs and scripts."""

    packages: Path
    home: Path

    @property
    def folders(self) -> tuple[Path, ...]:
        """All that EasyBuild runs, and its easyconfigs."""
        return tuple(dict.fromkeys((self.packages / "easybuild", self.home / "easybuild")))

    def version(self, part: str) -> str:
        """That of `framework`, `easyblocks` or `easyconfigs`; empty where it is not installed, or twice."""
        found = [p.name for p in self.packages.glob(f"easybuild_{part}-*.dist-info")]
        return found[0].removeprefix(f"easybuild_{part}-").removesuffix(".dist-info") if len(found) == 1 else ""


def contents_sum(places: Places) -> str:
    """The sha256 (64 hex digits) of what is installed there. Raises OSError for what is not there, or cannot be read."""
    lines = [_FORM]
    for name, path in sorted(_files(places)):
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - ten thousand of them
            digests = {sha256_bytes(file.read())}
        if name == _SHARED:
            digests.update(_declared(places))
        lines += [f"{name} {digest}" for digest in sorted(digests)]
    return sha256_bytes("".join(f"{line}\n" for line in lines).encode(errors="surrogateescape"))


def _files(places: Places) -> Iterator[tuple[str, str]]:
    """Names relative to what holds the folder `easybuild`, and paths."""
    for root in places.folders:
        above = len(str(root.parent)) + 1
        for folder, _, files in os.walk(root, onerror=_raise):
            yield from ((f"{folder[above:]}/{name}", f"{folder}/{name}") for name in files if name.endswith(_KINDS))


def _raise(error: OSError) -> None:
    raise error


def _declared(places: Places) -> Iterator[str]:
    """What framework and easyblocks say of the file that both bring."""
    records = [places.packages.glob(f"easybuild_{part}-*.dist-info/RECORD") for part in ("framework", "easyblocks")]
    for record in chain(*records):
        with record.open(newline="", encoding="utf-8") as file:
            for path, digest, *_ in csv.reader(file):
                if path == _SHARED and digest.startswith("sha256="):
                    encoded = digest.removeprefix("sha256=")
                    yield base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).hex()
