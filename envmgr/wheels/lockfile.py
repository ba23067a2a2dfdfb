"""The file `wheels.lock`: an exact set of wheels in pip's requirements form, which pip and uv read as it is.

It has one row with one sha256 for each package that is installed. The bytes decide: no file name, index or host is in
it, except in rows `name @ URL`. Its first lines are comments: what the set is for, and how large it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pydantic import Field, ValidationError

from envmgr.errors import InputError
from envmgr.system.models import FrozenModel
from envmgr.system.yamlfile import reason_of
from envmgr.wording import one_line

WHEELS_LOCK = "wheels.lock"
WHEEL_UNPACKED = 2  # times as large as its wheels is an install (measured over torch, tensorflow, Jupyter)
_ROW = re.compile(
    r"(?P<name>[a-z0-9]+(?:-[a-z0-9]+)*)(?:==(?P<version>[A-Za-z0-9_.!+-]+)| @ (?P<url>\S+))(?P<hashes> .*)?"
)
_HASH = re.compile(r" --hash=sha256:([0-9a-f]{64})")
# pip replaces ${NAME} in it, `#` ends it, and a login does not belong into a lock.
_WHEEL_URL = re.compile(r"(https?|file)://[^\s#$\\@]+\.whl")
_HEADER = re.compile(r"^# ([a-z-]+): (.*)$", re.MULTILINE)
_FILES = re.compile(r"[0-9]+(?:, ([0-9]+) bytes)?")


class LockedRow(FrozenModel):
    """One package, by the sha256 of its file: a wheel, or the source that the wheel is built from.

    `name` is normalised. `url` is where the wheel lies if the lock says so; otherwise an index gives the file.
    """

    name: str
    version: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    url: str | None = None


class LockedWheels(FrozenModel):
    """The content of one file; `rows` are sorted by name.

    `recipe` is the digest of the recipe that they answer, or empty. `python` is a version, `platform` is in uv's words,
    `indexes` are names of the site's, and `size` is the bytes of all files, None if an index does not give them.
    """

    recipe: str = ""
    python: str = Field(pattern=r"^[0-9]+\.[0-9]+(\.\S+)?$")
    platform: str = Field(pattern=r"^[a-z0-9_]+-manylinux_2_[0-9]{1,3}$")
    indexes: tuple[str, ...] = ()
    exclude_newer: str | None = None
    size: int | None = None
    rows: tuple[LockedRow, ...]

    @property
    def versions(self) -> dict[str, str]:
        return {row.name: row.version for row in self.rows}

    def identity(self) -> list[list[str]]:
        """Return everything that decides the bytes of an install."""
        return [[row.name, row.version, row.sha256] for row in self.rows]

    def describe(self) -> dict[str, str]:
        """Map each name to its version and the first digits of its sha256, as diffs and generations show a package."""
        return {row.name: f"{row.version} {row.sha256[:8]}" for row in self.rows}


def wheels_text(lock: LockedWheels, extra: Mapping[str, str] | None = None) -> str:
    """Return the text of a lock; `extra` are further lines of its header, each by its key."""
    header = {
        "recipe": lock.recipe,
        "python": lock.python,
        "platform": lock.platform,
        "indexes": ", ".join(lock.indexes),
        "exclude-newer": lock.exclude_newer or "",
        "files": f"{len(lock.rows)}" + ("" if lock.size is None else f", {lock.size} bytes"),
        **(extra or {}),
    }
    lines = ["# Written by envmgr; pip and uv read it. Lock again instead of editing."]
    lines += [f"# {key}: {value}" for key, value in header.items() if value]
    lines += [
        f"{row.name}{f' @ {row.url}' if row.url else f'=={row.version}'} --hash=sha256:{row.sha256}"
        for row in sorted(lock.rows, key=lambda row: row.name)
    ]
    return "\n".join(lines) + "\n"


def read_wheels(text: str, where: Path | str) -> tuple[LockedWheels, dict[str, str]]:
    """Return the lock, and the lines of its header by their keys; `where` names the file in messages.

    Raises:
        InputError: `lock-invalid`, `lock-unhashed` with file and line.
    """
    header: dict[str, str] = dict(_HEADER.findall(text))
    rows = [*_rows(text, where)]
    if twice := [name for name, times in Counter(row.name for row in rows).items() if times > 1]:
        raise _invalid(f"{where}: {twice[0]} is locked twice", twice)
    files = _FILES.fullmatch(header.get("files", ""))
    fields = {
        "recipe": header.get("recipe", ""),
        "python": header.get("python", ""),
        "platform": header.get("platform", ""),
        "indexes": tuple(filter(None, header.get("indexes", "").split(", "))),
        "exclude_newer": header.get("exclude-newer"),
        "size": files[1] if files else None,
        "rows": sorted(rows, key=lambda row: row.name),
    }
    try:
        return LockedWheels.model_validate(fields), header
    except ValidationError as error:
        faults = [one_line(f"# {each['loc'][0]}: {reason_of(each)}") for each in error.errors(include_url=False)]
        raise _invalid(f"{where}: its header does not say what the lock is for", faults) from None


def _rows(text: str, where: Path | str) -> Iterator[LockedRow]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if (row := _ROW.fullmatch(line)) is None:
            raise _invalid(f"{where}:{number}: not `name==version --hash=sha256:…`", one_line(line))
        # Without a sum a file would be installed unchecked; of several, chance would choose.
        if (sha256 := _HASH.fullmatch(row["hashes"] or "")) is None:
            raise InputError("lock-unhashed", f"{where}:{number}: not one sha256", context=one_line(line), hint=_AGAIN)
        version = row["version"] or wheel_version(row["name"], row["url"])
        if not version:
            raise _invalid(f"{where}:{number}: not the URL of a wheel of {row['name']}", one_line(line))
        yield LockedRow(name=row["name"], version=version, sha256=sha256[1], url=row["url"])


def wheel_version(name: str, url: str) -> str:
    """Return the version in the file name of the wheel at `url`; empty if it is no URL of a wheel of this name."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename  # slow to import, and few locks have URLs

    if _WHEEL_URL.fullmatch(url):
        try:
            found, version, *_ = parse_wheel_filename(file_of(url))
        except InvalidWheelFilename:
            return ""
        if found == name:
            return str(version)
    return ""


def file_of(url: str) -> str:
    """Return the name of the file at `url`. Source: PEP 503, the last part of the URL."""
    return unquote(urlsplit(url).path).rpartition("/")[2]


def is_file_of(row: LockedRow, file: str) -> bool:
    """Return whether a file has the name of a wheel, or of a source, of the package and version."""
    from packaging.utils import parse_sdist_filename, parse_wheel_filename  # slow to import
    from packaging.version import Version

    read = parse_wheel_filename if file.endswith(".whl") else parse_sdist_filename
    try:
        name, version = read(file)[:2]
        return name == row.name and version == Version(row.version)
    except ValueError:  # each error of packaging is one
        return False


_AGAIN = "lock again instead of editing it"


def _invalid(message: str, context: str | Sequence[str]) -> InputError:
    return InputError("lock-invalid", message, context=context, hint=_AGAIN)
