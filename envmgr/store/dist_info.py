"""The facts that Python packages in an install state of themselves: what they need, licences, SBOMs that they bring."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from email.parser import HeaderParser
from functools import lru_cache
from pathlib import Path

from envmgr.store.parts import PYPI, same_name
from envmgr.system.untrusted_files import Kind, read_bytes

_METADATA, _SBOM = Kind("package's metadata", 8 << 20), Kind("package's SBOM", 64 << 20)
_LONGEST = 200  # characters of a licence's name; some write its whole text there


@dataclass(frozen=True, slots=True)
class DistInfo:
    """The facts of one package. `name` is normalised, as are those that it `needs` without an extra; `sboms` maps paths
    relative to the install to contents.
    """

    name: str
    needs: tuple[str, ...]
    licence: str
    sboms: dict[str, bytes]


def dist_infos(root: Path) -> Iterator[DistInfo]:
    """Yield the Python packages of an install. Raises OSError, InputError as `read_bytes`.

    Source: packaging.python.org, "Core metadata"; PEP 639; PEP 770, `.dist-info/sboms`.
    """
    for folder in sorted(root.glob("lib*/python3*/site-packages/*.dist-info")):
        if folder.is_symlink() or folder.parents[2].is_symlink():
            continue
        with suppress(FileNotFoundError):
            said = HeaderParser().parsestr(read_bytes(folder / "METADATA", _METADATA).decode(errors="replace"))
            files = sorted(path for path in folder.glob("sboms/**/*") if path.is_file())
            found = {str(path.relative_to(root)): read_bytes(path, _SBOM, tree=root) for path in files}
            names = [str(each) for each in said.get_all("Classifier") or () if str(each).startswith("License ::")]
            texts = (said["License-Expression"], said["License"], names[0].rpartition(":: ")[2] if names else "")
            licence = next(map(_short, filter(_short, texts)), "")
            python = folder.parents[1].name.removeprefix("python")
            needs = filter(None, (_need(str(row), python) for row in said.get_all("Requires-Dist") or ()))
            name = same_name(PYPI, str(said["Name"] or ""))
            yield DistInfo(name, tuple(dict.fromkeys(needs)), licence, found)


@lru_cache(1 << 16)  # entries have the same packages
def _need(row: str, python: str) -> str:
    """Return the name that a row asks for with that Python; empty if it asks for none."""
    from packaging.requirements import Requirement  # slow to import

    version = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    try:
        read = Requirement(row)
        return same_name(PYPI, read.name) if read.marker is None or read.marker.evaluate(version) else ""
    except (ValueError, KeyError):  # a package's own text
        return ""


def _short(text: object) -> str:
    """Return a name of a licence; nothing for the text of one, or for no answer."""
    line = str(text or "").strip()
    return "" if len(line) > _LONGEST or re.search(r"[\r\n]", line) or line.upper() == "UNKNOWN" else line
