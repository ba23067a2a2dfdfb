"""The records of generations, as data. Staging and publishing are in generations.py."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import SerializerFunctionWrapHandler, ValidationError, model_serializer

from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.spec import ModuleSpec, Pip, default_entries
from envmgr.store.expected import ExpectedFile
from envmgr.store.manifest import InstallFacts, read_manifest
from envmgr.store.prefix import Install, Prefix, installs
from envmgr.system.files import read_regular
from envmgr.system.models import FrozenModel, require_format
from envmgr.system.pythons import pip_writes
from envmgr.system.shelltext import quote, words
from envmgr.system.untrusted_files import GENERATION, read_bytes, why_unreadable

RECORD = "generation.json"
SPECS = "modules.json"
ABANDONED = "abandoned.json"


FORMAT = 1
"""The number of the format of records, and of the specs beside them; another one is refused."""


_INSTALL = re.compile(rb"store/[A-Za-z0-9._+-]+/[A-Za-z0-9._+-]+-[0-9a-f]{8}(?![0-9a-f])")


class PublishedEntry(FrozenModel):
    """One entry of a generation. `path` is relative to the prefix, as are `needs`, the installs that it stands on;
    `lock` is the sha256 of the lock's text. `not_ours` is the tree that its module leads to, where envmgr neither made
    nor keeps the software; empty otherwise, and then not written.
    """

    digest: str
    path: str
    lock: str
    fingerprint: str
    needs: tuple[str, ...] = ()
    not_ours: str = ""

    @model_serializer(mode="wrap")
    def _written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = handler(self)
        return {key: value for key, value in found.items() if key != "not_ours" or value}

    @property
    def paths(self) -> tuple[str, ...]:
        """All installs that must be there for it."""
        return (self.path, *self.needs)


class GenerationRecord(FrozenModel):
    """The content of `generation.json`. It is written last, so a generation without it is not complete.

    `files` maps a path below the generation to the sha256 of its text, and has all but the record itself. `manifests`
    maps installs, by their paths relative to the prefix, to the sha256 of their manifests. `render` digests templates
    and policies.
    """

    schema_version: int = FORMAT
    number: int
    parent: int | None
    created: str
    user: str
    host: str
    reason: str
    tools: dict[str, str]
    render: str
    entries: dict[str, PublishedEntry]
    files: dict[str, str]
    manifests: dict[str, str]

    @property
    def installs(self) -> dict[str, list[str]]:
        """Path of an install -> the entries that use it."""
        users: dict[str, list[str]] = {}
        for name, entry in self.entries.items():
            for path in entry.paths:
                users.setdefault(path, []).append(name)
        return users


class PublishedSpec(FrozenModel):
    """The data that a later generation needs to render an entry again: the module, and the install's part of it; and
    what an audit expects of that.
    """

    spec: ModuleSpec
    facts: InstallFacts
    expected: ExpectedFile = ExpectedFile()


def current_number(prefix: Prefix) -> int | None:
    """Return the number that `current` names; None before the first publish."""
    try:
        target = str(prefix.current.readlink())
    except FileNotFoundError:
        return None
    except OSError as error:
        # EINVAL is the answer of readlink(2) for something that is no link.
        if error.errno != errno.EINVAL:
            raise EnvmgrError("prefix-unreadable", f"cannot read {prefix.current}", context=str(error)) from None
        raise EnvmgrError(
            "current-damaged",
            f"{prefix.current} is not a link",
            context=f"it is a {'folder' if prefix.current.is_dir() else 'file'}",
            hint=way_back(prefix),
        ) from None
    match = re.fullmatch(r"generations/([0-9]{4,})", target)
    if not match or not (prefix.generation(int(match[1])) / RECORD).is_file():
        raise EnvmgrError(
            "current-damaged",
            f"{prefix.current} names no complete generation",
            context=f"it points to {target}",
            hint=way_back(prefix),
        )
    return int(match[1])


def way_back(prefix: Prefix, number: int | None = None) -> str:
    """Return the commands, in order, that make `current` right: a rollback to generation `number`, or to the newest
    other one whose record can be read and whose installs are there.

    If there is none, they make installs again; if no record can be read, they start over.
    """
    away = ""
    if prefix.current.exists() and not prefix.current.is_symlink():
        # Without -T, mv would move it into a folder `current.away` that exists already.
        away = f"`mv -T {words(str(prefix.current), str(prefix.current) + '.away')}`; "
    here = str(prefix.current.readlink()) if prefix.current.is_symlink() else ""
    left = {n: record for n, record in _left(prefix).items() if f"generations/{n:04d}" != here}
    tried = candidate_numbers(prefix)  # nobody has used a candidate as the current one
    whole = (n for n, record in left.items() if n not in tried and (record is None or has_installs(prefix, record)))
    number = number or max(whole, default=None)
    if number is not None:
        return (
            f"{away}`envmgr rollback {number}`, the newest generation that is whole; then `envmgr publish` "
            "adds what is built and not in it"
        )
    if number := max((n for n, record in left.items() if n not in tried and record is not None), default=None):
        return f"{away}{make_again(prefix, number)}"
    return start_over(prefix, away)


def start_over(prefix: Prefix, away: str = "") -> str:
    """Return what helps where no generation can become current; `away` makes room for `current`."""
    if not away and prefix.current.is_symlink():
        away = f"`rm {quote(str(prefix.current))}`; "
    return f"no generation is left: bring back {prefix.generations} from a backup; or {away}{new_beginning(prefix)}"


def make_again(prefix: Prefix, number: int) -> str:
    """Return the commands that make the lost installs of a generation again, and it current."""
    record = read_record(prefix, number)
    lost = {path for path in record.installs if not prefix.install_at(path).exists()}
    names = [name for name, entry in record.entries.items() if not lost.isdisjoint(entry.paths)]
    return (
        f"`envmgr build --again {' '.join(names)}` makes again what generation {number} needs; then "
        f"`envmgr rollback {number}`"
    )


BUILD = "`envmgr build ENTRY` makes one of the entries that you name; `envmgr history` shows what was published"


def new_beginning(prefix: Prefix, build: str = BUILD) -> str:
    """Return what makes the first generation, or one if no earlier one is left; `build` if nothing is built."""
    if any(install.exists() for install in installs(prefix)):
        return "`envmgr publish` makes one of all that is built"
    return build


def has_installs(prefix: Prefix, record: GenerationRecord) -> bool:
    """Return whether all installs that a generation names are there."""
    try:
        return all(prefix.install_at(path).exists() for path in record.installs)
    except ValueError:  # no path of an install
        return False


def can_go_back(prefix: Prefix) -> bool:
    """Return whether a generation is left whose record this or a later envmgr can read."""
    return bool(_left(prefix))


def _left(prefix: Prefix) -> dict[int, GenerationRecord | None]:
    """Return the generations that something still names; None for those that only a later envmgr can read."""
    records, damaged = read_records(prefix)
    later = [number for number, error in damaged.items() if error.reference == "format-unknown"]
    return {**records, **dict.fromkeys(later)}


def read_record(prefix: Prefix, number: int) -> GenerationRecord:
    """Return the record. Raise EnvmgrError `no-generation` if it is missing or incomplete, `generation-damaged`,
    `format-unknown`.
    """
    path = prefix.generation(number) / RECORD
    try:
        return parse_record(path, read_bytes(path, GENERATION))
    except FileNotFoundError:
        raise EnvmgrError(
            "no-generation", f"there is no generation {number}", context=str(path), hint="`envmgr history` lists them"
        ) from None
    except (OSError, InputError) as error:
        raise _damaged(path, error) from None


def parse_record(path: Path, content: bytes) -> GenerationRecord:
    """Parse `content`, read from `path`. Raises EnvmgrError `generation-damaged`, `format-unknown`."""
    try:
        return GenerationRecord.model_validate(require_format(json.loads(content), FORMAT, path, "schema_version"))
    # RecursionError: Python's JSON parser raises it for nesting that only a damaged file has.
    except (ValueError, RecursionError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> EnvmgrError:
    return EnvmgrError(
        "generation-damaged",
        f"{path} cannot be read",
        context=why_unreadable(error),
        hint="`envmgr verify --all` tells which generations are as they were published; `envmgr rollback "
        "NUMBER` takes one of them",
    )


def read_current(prefix: Prefix) -> GenerationRecord | None:
    """Return the record of what is current by now: beside a publish and a `gc`, the earlier one may be removed while it
    is read.
    """
    while True:
        number = current_number(prefix)
        try:
            return None if number is None else read_record(prefix, number)
        except EnvmgrError:
            if current_number(prefix) == number:
                raise


def read_specs(prefix: Prefix, number: int) -> dict[str, Any]:
    """Return entry -> the raw `PublishedSpec`; parse the ones you need with `published_spec`. Raise EnvmgrError
    `generation-damaged`.
    """
    path = prefix.generation(number) / SPECS
    try:
        return parse_specs(path, read_bytes(path, GENERATION))
    except (OSError, InputError) as error:
        raise _damaged(path, error) from None


def parse_specs(path: Path, content: bytes) -> dict[str, Any]:
    """Parse `content`, read from `path`. Raises EnvmgrError `generation-damaged`."""
    try:
        data: dict[str, Any] = json.loads(content)
        _ = [{**raw["spec"], **raw["facts"]} for raw in data.values()]  # that they are there, and mappings
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path, error) from None
    return data


def raw_defaults(specs: Mapping[str, Any]) -> dict[str, str]:
    """Return `default_entries` of the specs of a generation (entry -> spec)."""
    found = (raw["spec"] for raw in specs.values())
    return default_entries(
        (each["name"], each["version"], bool(each.get("default")), bool(each.get("hidden"))) for each in found
    )


def published_spec(raw: Mapping[str, Any]) -> PublishedSpec:
    """Return the parsed spec. Raise EnvmgrError `generation-damaged`."""
    try:
        return PublishedSpec.model_validate(raw)
    except ValidationError as error:
        entry = f"{raw['spec'].get('name')}/{raw['spec'].get('version')}"
        raise EnvmgrError(
            "generation-damaged",
            f"what {SPECS} of a generation has of {entry} cannot be read",
            context=str(error),
            hint="`envmgr verify` tells whether it was changed; if not, a later envmgr wrote it: use that",
        ) from None


def find_pip(install: Install, facts: InstallFacts) -> Pip | None:
    """Return the pip of the first Python among an install and those that it runs with; None if its module brings no
    Python.
    """
    if facts.python is None:
        return None
    if facts.outside is not None:
        home = Path(facts.outside.path)
        return Pip(folder=str(home / "bin"), minor=facts.python, writes=pip_writes(home))
    for each in (install, *map(install.prefix.install_at, facts.needs)):
        if each.has_python():
            return Pip(folder=str(each.path / "bin"), minor=facts.python, writes=pip_writes(each.path))
    return Pip(folder="", minor=facts.python, writes=False)


def has_kernel(install: Install, facts: InstallFacts) -> bool:
    """Return whether the Python of its module finds ipykernel, by what installs say of their packages."""
    if facts.kernel:
        return True
    # A Python of its own does not see the packages of those below.
    roots = (install,) if install.has_python() else (install, *map(install.prefix.install_at, facts.needs))
    found = (root.path.glob("lib*/python3*/site-packages/ipykernel-*-info") for root in roots)
    return facts.python is not None and any(map(any, found))


def generation_numbers(prefix: Prefix) -> list[int]:
    """Return every number ever taken (complete, in progress or abandoned), ascending."""
    if not prefix.generations.is_dir():
        return []
    return sorted(int(p.name) for p in prefix.generations.iterdir() if re.fullmatch(r"[0-9]{4,}", p.name))


def complete_numbers(prefix: Prefix, *, candidates: bool = True) -> list[int]:
    """Return the numbers of complete generations, ascending; without `candidates`, of those that were published."""
    left_out = frozenset[int]() if candidates else candidate_numbers(prefix)
    return [n for n in generation_numbers(prefix) if n not in left_out and (prefix.generation(n) / RECORD).is_file()]


def candidate_numbers(prefix: Prefix) -> frozenset[int]:
    """Return the numbers that are marked as candidates: see `publish.candidates`. They may be gone, or about to come."""
    with suppress(FileNotFoundError):
        return frozenset(
            int(path.stem) for path in prefix.candidates.iterdir() if re.fullmatch(r"[0-9]{4,}\.json", path.name)
        )
    return frozenset()


def read_records(prefix: Prefix) -> tuple[dict[int, GenerationRecord], dict[int, EnvmgrError]]:
    """Return the records of all complete generations, and why others cannot be read: a damaged one affects only
    itself.
    """
    records: dict[int, GenerationRecord] = {}
    damaged: dict[int, EnvmgrError] = {}
    for number in complete_numbers(prefix):
        try:
            records[number] = read_record(prefix, number)
        except EnvmgrError as error:
            damaged[number] = error
    return records, damaged


def published_installs(prefix: Prefix) -> set[str]:
    """Return every install that a complete generation names, and the installs that it runs with, by path relative to
    the prefix.
    """
    records, damaged = read_records(prefix)
    found = {path for record in records.values() for entry in record.entries.values() for path in entry.paths}
    return found.union(*(mentioned_installs(prefix, number) for number in damaged))


def mentioned_installs(prefix: Prefix, number: int) -> set[str]:
    """Return every install that a file of a generation names, and the installs that it runs with.

    This is for a generation whose record cannot be read.
    """
    found: set[str] = set()
    for path in prefix.generation(number).rglob("*"):
        with suppress(OSError):
            found |= {match.decode() for match in _INSTALL.findall(read_regular(path))}
    waiting = set(found)
    while waiting:
        install = prefix.install_at(waiting.pop())
        # An install with a damaged manifest is kept, but nothing says what it needs.
        with suppress(EnvmgrError):
            new = {*read_manifest(install.manifest).facts.needs} - found
            found |= new
            waiting |= new
    return found
