"""Spack's own files: the database of an install tree, and the lock of an environment. Spack itself is not run.

Sources: Spack's `lib/spack/spack/database.py` and `environment/environment.py`; files that Spack 0.23 wrote.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envmgr.errors import InputError
from envmgr.system.files import pretty_json
from envmgr.system.untrusted_files import ANYWHERE, Kind, read_file_text
from envmgr.wording import one_line

INDEX = ".spack-db/index.json"
DATABASE_FORMATS, LOCK_FORMATS = range(5, 9), range(4, 8)  # the numbers that these readers know
_FILE = Kind("Spack database", 256 << 20)
SHORT = 7  # digits of a hash, as Spack shows it


@dataclass(frozen=True, slots=True)
class SpackInstall:
    """A node of Spack: `spec` is its text, `needs` are the hashes of what it runs with. `path` is where it lies; a
    lock knows that only of what Spack did not install (`external`).
    """

    name: str
    version: str
    hash: str
    spec: str
    compiler: str
    target: str
    needs: tuple[str, ...]
    external: bool
    path: str = ""
    explicit: bool = False
    installed: bool = False

    @property
    def short(self) -> str:
        return f"{self.name}@{self.version}/{self.hash[:SHORT]}"


@dataclass(frozen=True, slots=True)
class SpackLock:
    """The lock of an environment: `roots` is hash -> what was asked for."""

    spack: str
    roots: Mapping[str, str]
    specs: Mapping[str, SpackInstall]


def read_database(tree: Path) -> dict[str, SpackInstall]:
    """Return the installs of a tree by their hashes. Raises InputError `file-missing`, `spack-format`."""
    path = tree / INDEX
    return database_of(read_file_text(path, _FILE, tree=ANYWHERE), path)


def database_of(text: str, path: Path) -> dict[str, SpackInstall]:
    """Return the installs that the text of a database has. Raises InputError `spack-format`."""
    data = _parsed(text, path).get("database") or {}
    _require_known(data, "version", DATABASE_FORMATS, path)
    try:
        return {each: _record(each, row) for each, row in data["installs"].items()}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _unreadable(path, error) from None


def lock_of(text: str, path: Path) -> SpackLock:
    """Return what the text of a `spack.lock` has. Raises InputError `spack-format`."""
    data = _parsed(text, path)
    _require_known(data.get("_meta"), "lockfile-version", LOCK_FORMATS, path)
    try:
        made_by = data.get("spack") or {}
        words = (made_by.get("version", ""), made_by.get("commit", ""))
        return SpackLock(
            spack=" ".join(str(word) for word in words if word),
            roots={_seen(str(row["hash"])): _seen(str(row["spec"])) for row in data["roots"]},
            specs={each: _node(each, row) for each, row in data["concrete_specs"].items()},
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _unreadable(path, error) from None


def in_order(text: str, path: Path) -> str:
    """Return the text of a `spack.lock` with its roots and keys sorted: their order is another one each time.

    Raises InputError `spack-format`.
    """
    lock_of(text, path)
    data = _parsed(text, path)
    data["roots"] = sorted(data["roots"], key=str)
    return pretty_json(data)


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, error) from None
    return data if isinstance(data, dict) else {}


def _require_known(data: Any, key: str, known: range, path: Path) -> None:
    found = data.get(key) if isinstance(data, dict) else None
    if str(found) not in map(str, known):
        later = str(found).isdecimal() and int(str(found)[:9]) >= known.stop
        raise InputError(
            "spack-format",
            f"{path} has format {one_line(repr(found))}, and this envmgr knows {known.start} to {known.stop - 1}",
            hint="a later Spack wrote it: use a later envmgr"
            if later
            else "is it Spack's? `spack reindex` writes it again",
        )


def _unreadable(path: Path, error: Exception) -> InputError:
    what = type(error).__name__ if isinstance(error, KeyError) else "content"
    return InputError("spack-format", f"{path} is no file of Spack", context=one_line(f"{what}: {error}"))


def _record(hash_: str, row: Mapping[str, Any]) -> SpackInstall:
    node = _node(hash_, row["spec"])
    return SpackInstall(
        **{name: getattr(node, name) for name in SpackInstall.__slots__[:8]},
        path=_seen(str(row.get("path") or "")),
        explicit=bool(row.get("explicit")),
        installed=bool(row.get("installed")),
    )


def _node(hash_: str, row: Mapping[str, Any]) -> SpackInstall:
    arch, compiler = row["arch"], row.get("compiler") or {}
    target = arch["target"]
    target = str(target["name"] if isinstance(target, dict) else target)
    by = f"{compiler['name']}@{compiler['version']}" if compiler else _compiler_below(row)
    deps = row.get("dependencies") or []
    return SpackInstall(
        name=str(row["name"]),
        version=str(row["version"]),
        hash=_seen(hash_),
        spec=_seen(" ".join(_words(row, by, f"{arch['platform']}-{arch['platform_os']}-{target}"))),
        compiler=by,
        target=target,
        needs=tuple(str(each["hash"]) for each in deps if "run" in _kinds(each)),
        external="external" in row,
        path=_seen(str((row.get("external") or {}).get("path") or "")),
    )


def _seen(text: str) -> str:
    """Return the text, which messages and recipes repeat. Raise ValueError if it has characters that act unseen."""
    if not text.isprintable():
        raise ValueError(f"`{one_line(text)}` has characters that act unseen")
    return text


def _kinds(dependency: Mapping[str, Any]) -> list[str]:
    # Before format 7 the kinds stood beside the name.
    found = dependency.get("parameters", {}).get("deptypes", dependency.get("type", []))
    return [str(each) for each in found]


def _compiler_below(row: Mapping[str, Any]) -> str:
    """Return the compiler of a node of Spack 1.0, where it is a dependency like others; empty if none is said."""
    said = row.get("annotations", {}).get("compiler")
    if said:
        return str(said)
    for each in row.get("dependencies") or []:
        if {"c", "cxx", "fortran"} & {*each.get("parameters", {}).get("virtuals", [])}:
            return str(each["name"])
    return ""


def _words(row: Mapping[str, Any], compiler: str, arch: str) -> Iterator[str]:
    yield f"{row['name']}@{row['version']}"
    if compiler:
        yield f"%{compiler}"
    for name, value in sorted((row.get("parameters") or {}).items()):
        if isinstance(value, bool):
            yield f"{'+' if value else '~'}{name}"
        elif value and name != "patches":
            yield f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"
    yield f"arch={arch}"
