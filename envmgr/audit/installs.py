"""What an audit expects of installs: the first program that an entry puts into PATH, and a sample of its files, by its manifest."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envmgr.modules.spec import ModuleSpec
from envmgr.publish.record import PublishedEntry
from envmgr.store.prefix import Prefix
from envmgr.system.run import Runner, run_detached
from envmgr.system.shelltext import script_text

_SECONDS = 20.0  # for reading manifests of a prefix that has just answered
_LARGEST, _MOST = 8 << 20, 24  # bytes of a file that is hashed on nodes, and files of an entry
_DRAWN = 60  # rows of a manifest of which those are taken


@dataclass(frozen=True, slots=True)
class ExpectedInstall:
    """The install of `entry` at `root`, by its manifest.

    `program` is the first executable that the entry puts into PATH, `file` what is looked at: that, or a file of it where
    it has none. Both are relative to `root`, and empty where the manifest could not be read. `sums` is path -> sha256.
    """

    entry: str
    root: str
    program: str = ""
    file: str = ""
    sums: Mapping[str, str] | None = None


def expected_installs(
    prefix: Prefix,
    entries: Mapping[str, PublishedEntry],
    specs: Mapping[str, ModuleSpec],
    deep: Sequence[str],
    runner: Runner,
    seconds: float,
) -> tuple[ExpectedInstall, ...]:
    """Every published entry's, by the manifests that can be read within `seconds`; `sums` for those of `deep`."""
    asked = [f"{_manifest(entries[name])} {int(name in deep)} {_pattern(specs[name])}" for name in sorted(entries)]
    script = script_text(__file__, "sh")
    done = run_detached(
        ["/bin/sh", "-c", script, "sh", str(prefix.root), str(_DRAWN)],
        stdin="".join(f"{line}\n" for line in asked),
        seconds=min(_SECONDS, seconds),
        check=runner.raise_if_cancelled,
    )
    told = _by_manifest(done.output)
    return tuple(
        _expected(name, specs[name], told.get(_manifest(entries[name]), []), deep=name in deep)
        for name in sorted(entries)
    )


def _manifest(entry: PublishedEntry) -> str:
    return f"{entry.path}.manifest.json"


def _by_manifest(output: str) -> dict[str, list[list[Any]]]:
    found: dict[str, list[list[Any]]] = {}
    rows: list[list[Any]] = []
    for line in output.splitlines():
        if line.startswith("@"):
            rows = found.setdefault(line[1:], [])
        elif line.startswith("["):
            with suppress(ValueError):  # cut off where it was left behind, or damaged: `verify` tells that
                rows.append(_row(json.loads(line.rstrip(","))))
    return found


def _row(row: list[Any]) -> list[Any]:
    """Path, kind, mode, size, sha256 or target. Raises ValueError for anything else."""
    if [type(value) for value in row] != [str, str, str, int, str]:
        raise ValueError("no row of a manifest")
    int(row[2], 8)
    return row


def _expected(name: str, spec: ModuleSpec, rows: Sequence[Sequence[Any]], *, deep: bool) -> ExpectedInstall:
    program = _first_program(spec, rows)
    file = program or next((str(row[0]) for row in rows if row[1] == "file"), "")
    sums = None
    if deep:
        plain = [
            row for row in rows if row[0].isprintable() and "\\" not in row[0]
        ]  # sha256sum writes others in its own way
        hashed = [row for row in plain if row[1] == "file" and 0 < row[3] <= _LARGEST]
        sums = {str(row[0]): str(row[4]) for row in hashed[-_MOST:]}
    return ExpectedInstall(name, spec.root, program, file, sums)


def _first_program(spec: ModuleSpec, rows: Sequence[Sequence[Any]]) -> str:
    """The Python of an entry that has one, else what is called as the entry is, else the first by name."""
    names = {str(row[0]): row[1] == "link" for row in rows if row[1] == "link" or int(row[2], 8) & 0o100}
    wanted = [*(["python"] if spec.python and spec.own_python is not False else []), spec.name, spec.name.lower()]
    for folder in _folders(spec):
        in_folder = {Path(path).name: path for path in names if str(Path(path).parent) == folder}
        for name in wanted:
            if name in in_folder:
                return in_folder[name]
        if files := sorted(path for path in in_folder.values() if not names[path]):  # a link may name anything
            return files[0]
    return ""


def _folders(spec: ModuleSpec) -> list[str]:
    """The folders of the install that the module puts into PATH, the first one first; `.` is the install itself."""
    found: list[str] = []
    for change in spec.environment:
        if change.name == "PATH" and change.kind in ("prepend", "append") and not change.at_load:
            parts = [part for part in change.value.split(change.separator) if f"{part}/".startswith(f"{spec.root}/")]
            inside = [part[len(spec.root) :].strip("/") or "." for part in parts]
            found = [*inside, *found] if change.kind == "prepend" else [*found, *inside]
    return list(dict.fromkeys(found))


def _pattern(spec: ModuleSpec) -> str:
    """Rows of a manifest that may be programs, as an extended regular expression."""
    folders = [
        "" if folder == "." else re.sub(r"([][.(){}*+?^$|\\])", r"\\\1", folder) + "/" for folder in _folders(spec)
    ]
    return rf'^\["({"|".join(folders)})[^/"]*", "(file|link)"' if folders else "^$"


__all__ = ["ExpectedInstall", "expected_installs"]
