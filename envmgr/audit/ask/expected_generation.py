"""The expected state of every node: the published generation and its installs, as this host reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from envmgr.audit.plan import ExpectedInstall, PublishedGeneration
from envmgr.catalog.names import nearest
from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.spec import ModuleSpec
from envmgr.publish.records import RECORD, complete_numbers, published_spec, read_current, read_specs
from envmgr.store.manifest import NODE_CHECK
from envmgr.store.prefix import Prefix
from envmgr.system.run import Runner, run_detached
from envmgr.system.scratch import scratch_folder
from envmgr.system.shelltext import script_text
from envmgr.system.untrusted_files import GENERATION, digest_of
from envmgr.wording import did_you_mean

SAMPLE = 8  # entries that are looked at closely if none are named; each costs a node about 0.1 s

_NO_LINK = 3  # the exit status of copy.sh where neither link names what is asked for
_SECONDS = 20.0  # for reading some kilobytes of a prefix that has just answered


def read_published(
    prefix: Prefix, runner: Runner, seconds: float, number: int | None = None
) -> PublishedGeneration | None:
    """Return the current generation, or the newest candidate if that is `number`; None if it cannot be read within
    `seconds`.

    Raises:
        InputError: `not-in-shells` for a generation that is neither.
        EnvmgrError: `current-damaged`, `generation-damaged`.
    """
    with scratch_folder("published") as scratch:
        folder = str(scratch)
        # A process that can be left behind copies the files, because the prefix may hang.
        copy = ["/bin/sh", "-c", script_text(__file__, "copy.sh"), "sh", str(prefix.root), folder]
        copy.append("" if number is None else str(prefix.generation(number).relative_to(prefix.root)))
        code = run_detached(copy, seconds=min(_SECONDS, seconds), check=runner.raise_if_cancelled).returncode
        if code == _NO_LINK:
            raise InputError(
                "not-in-shells",
                f"no shell can get generation {number}: it is neither current nor the newest candidate",
                hint="`envmgr history` marks them with * and c; `envmgr verify --generation` compares any other one",
            )
        if code != 0:
            return None
        here = Prefix(Path(folder))
        try:
            record = read_current(here)
            raw = read_specs(here, record.number) if record else {}
        except EnvmgrError as error:
            # Users know the prefix, and not the copy that is read here.
            error.message = error.message.replace(folder, str(prefix.root))
            error.context = tuple(line.replace(folder, str(prefix.root)) for line in error.context)
            raise
        if record is None:
            return None
        return PublishedGeneration(
            record=record,
            record_sha256=digest_of(here.generation(record.number) / RECORD, GENERATION),
            specs={name: published_spec(item).spec for name, item in raw.items()},
            kept=tuple(complete_numbers(here)),
            since=float((Path(folder) / "since").read_text()),
            link="candidate" if (Path(folder) / "link").read_text().strip() == "candidate" else "current",
        )


def choose_samples(names: Sequence[str], published: PublishedGeneration) -> tuple[str, ...]:
    """Return the entries to look at closely: those named, `all`, or a sample: defaults first, then spread over the
    rest.

    Raises InputError `not-published`.
    """
    entries = sorted(published.record.entries)
    if list(names) == ["all"]:
        return tuple(entries)
    for name in names:
        if name not in published.record.entries:
            close = nearest(name, entries)
            raise InputError(
                "not-published",
                f"{name} is not published",
                context=f"generation {published.record.number}",
                hint=did_you_mean(close, "`envmgr list` shows what is"),
            )
    if names or len(entries) <= SAMPLE:
        return tuple(names or entries)
    first = [name for name in entries if published.specs[name].default][:SAMPLE]
    rest = [name for name in entries if name not in first]
    step = max(1, len(rest) // max(1, SAMPLE - len(first)))
    return tuple(sorted([*first, *rest[::step]][:SAMPLE]))


_INSTALLS_SECONDS = 20.0  # for reading manifests of a prefix that has just answered
_LARGEST, _MOST = 8 << 20, 24  # bytes of a file that is hashed on nodes, and files per entry
_DRAWN = 60  # rows of a manifest from which these files are taken


def expected_installs(
    prefix: Prefix, published: PublishedGeneration, deep: Sequence[str], runner: Runner, seconds: float
) -> tuple[ExpectedInstall, ...]:
    """Return every published entry's install, by the manifests that can be read within `seconds`; `sums` for those of
    `deep`.
    """
    manifests = {name: f"{entry.path}.manifest.json" for name, entry in sorted(published.record.entries.items())}
    specs = published.specs
    asked = [f"{path} {int(name in deep)} {_pattern(specs[name])}\n" for name, path in manifests.items()]
    done = run_detached(
        ["/bin/sh", "-c", script_text(__file__, "installs.sh"), "sh", str(prefix.root), str(_DRAWN)],
        stdin="".join(asked),
        seconds=min(_INSTALLS_SECONDS, seconds),
        check=runner.raise_if_cancelled,
    )
    rows = _by_manifest(done.output)
    found = (_expected(name, specs[name], rows.get(path, []), deep=name in deep) for name, path in manifests.items())
    return tuple(found)


def _by_manifest(output: str) -> dict[str, list[list[Any]]]:
    found: dict[str, list[list[Any]]] = {}
    rows: list[list[Any]] = []
    for line in output.splitlines():
        if line.startswith("@"):
            rows = found.setdefault(line[1:], [])
        elif line.startswith("["):
            with suppress(ValueError):  # cut off at the time limit, or damaged: `verify` reports that
                rows.append(_row(json.loads(line.rstrip(","))))
    return found


def _row(row: list[Any]) -> list[Any]:
    """Return path, kind, mode, size, sha256 or target. Raises ValueError for anything else."""
    if [type(value) for value in row] != [str, str, str, int, str]:
        raise ValueError("no row of a manifest")
    int(row[2], 8)
    return row


def _expected(name: str, spec: ModuleSpec, rows: Sequence[Sequence[Any]], *, deep: bool) -> ExpectedInstall:
    if (tree := spec.outside) is not None:
        return ExpectedInstall(name, tree.path, tree.program, tree.file or tree.program, None, outside=True)
    program = _first_program(spec, rows)
    file = program or next((str(row[0]) for row in rows if row[1] == "file"), "")
    sums = None
    if deep:
        plain = [row for row in rows if row[0].isprintable() and "\\" not in row[0]]  # sha256sum escapes other names
        hashed = [row for row in plain if row[1] == "file" and 0 < row[3] <= _LARGEST]
        sums = {str(row[0]): str(row[4]) for row in hashed[-_MOST:]}
    return ExpectedInstall(name, spec.root, program, file, sums, any(row[0] == NODE_CHECK for row in rows))


def _first_program(spec: ModuleSpec, rows: Sequence[Sequence[Any]]) -> str:
    """Return the Python of an entry that has one, else the program with the entry's name, else the first by name."""
    names = {str(row[0]): row[1] == "link" for row in rows if row[1] == "link" or int(row[2], 8) & 0o100}
    wanted = [*(["python"] if spec.python and spec.own_python else []), spec.name, spec.name.lower()]
    for folder in _folders(spec):
        in_folder = {Path(path).name: path for path in names if str(Path(path).parent) == folder}
        for name in wanted:
            if name in in_folder:
                return in_folder[name]
        if files := sorted(path for path in in_folder.values() if not names[path]):  # a link may name anything
            return files[0]
    return ""


def _folders(spec: ModuleSpec) -> list[str]:
    """Return the folders of the install that the module puts into PATH, the first one first; `.` is the install
    itself.
    """
    found: list[str] = []
    for change in spec.environment:
        if change.name == "PATH" and change.kind in ("prepend", "append") and not change.at_load:
            parts = [part for part in change.value.split(change.separator) if f"{part}/".startswith(f"{spec.root}/")]
            inside = [part[len(spec.root) :].strip("/") or "." for part in parts]
            found = [*inside, *found] if change.kind == "prepend" else [*found, *inside]
    return list(dict.fromkeys(found))


def _pattern(spec: ModuleSpec) -> str:
    """Return an extended regular expression for rows of a manifest that may be programs."""
    folders = [
        "" if folder == "." else re.sub(r"([][.(){}*+?^$|\\])", r"\\\1", folder) + "/" for folder in _folders(spec)
    ]
    programs = [rf"({'|'.join(folders)})[^/\"]*"] if folders else []
    return rf'^\["({"|".join([*programs, NODE_CHECK])})", "(file|link)"'
