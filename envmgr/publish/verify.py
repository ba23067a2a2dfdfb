"""The comparison of a generation with what was published: its folder, its record, every file that the record names, and
no other.

`current` is looked at here, too. Only regular files are opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from envmgr.errors import EnvmgrError
from envmgr.modules.spec import SHIMS
from envmgr.publish import records
from envmgr.publish.flips import flips
from envmgr.store.prefix import Prefix
from envmgr.store.tree import TreeLook, TreePath, look_at_tree
from envmgr.system.files import read_regular, sha256_bytes
from envmgr.system.usernames import user_name
from envmgr.wording import escaped


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a generation. `path` is relative to the prefix; `found` describes the fault."""

    path: str
    found: str


@dataclass(frozen=True, slots=True)
class LookedAt:
    """A generation that was looked at. `record` is None if it cannot be read; `unseen` is what could not be
    compared.
    """

    number: int
    record: records.GenerationRecord | None
    files: int
    faults: tuple[Fault, ...]
    unseen: tuple[str, ...] = ()

    @property
    def can_be_made_again(self) -> bool:
        """Return whether a new generation can be made from it: its record and its specs are as they were."""
        own = {fault.path.split("/", 2)[-1] for fault in self.faults}
        return self.record is not None and not own & {records.RECORD, records.SPECS}


def current_faults(prefix: Prefix) -> list[Fault]:
    """Return the faults of `current`: it must be a link to a complete generation. Before the first publish there may be
    none.
    """
    try:
        number = records.current_number(prefix)
    except EnvmgrError as error:
        told = "; ".join(error.context)
        return [Fault("current", f"{error.message.removeprefix(f'{prefix.current} ')}: {told}")]
    if number is None and records.complete_numbers(prefix, candidates=False):
        return [Fault("current", "missing, though there are generations")]
    return []


def verify_generation(prefix: Prefix, number: int, told: Mapping[int, str], owners: Collection[int] | None) -> LookedAt:
    """Compare all of a generation with its record, and the record with what its publish wrote into the history
    (`told`).

    `owners` are the user numbers to whom a prefix may belong; None: anybody.
    """
    folder = prefix.generation(number)
    below = str(folder.relative_to(prefix.root))
    faults = [Fault(below, found) for found in _folder_faults(folder, owners)]
    if faults and not folder.is_dir():
        return LookedAt(number, None, 0, tuple(faults))
    look = look_at_tree(folder, folder.lstat().st_uid)
    record, of_record = _record(prefix, number, told.get(number))
    faults += of_record
    faults += [Fault(f"{below}/{escaped(path)}", found) for path, found in _tree_faults(look, record)]
    if record is not None:
        faults += [Fault(f"{below}/{records.SPECS}", found) for found in _spec_faults(folder, record)]
    unseen = []
    if record is not None and number not in told:
        unseen.append(f"{below}/{records.RECORD}: the history does not have its sha256")
    if record is not None and (unnamed := record.installs.keys() - record.manifests.keys()):
        count = f"{len(unnamed)} manifest{'s' if len(unnamed) > 1 else ''}"
        unseen.append(f"{below}/{records.RECORD}: it does not name the sha256 of {count}")
    return LookedAt(number, record, len(look.paths), tuple(faults), tuple(unseen))


def newest_whole(prefix: Prefix, told: Mapping[int, str], owners: Collection[int] | None) -> int | None:
    """Return the newest generation for a rollback: unchanged since its publish, with all its installs present."""
    for number in reversed(records.complete_numbers(prefix, candidates=False)):
        looked = verify_generation(prefix, number, told, owners)
        if looked.faults or looked.record is None:
            continue
        if records.has_installs(prefix, looked.record):
            return number
    return None


def published_numbers(prefix: Prefix) -> list[int]:
    """Return complete generations, and those that were current once and have lost their record since; without those
    that `gc` removed.
    """
    once = {int(row["to"]) for row in flips(prefix)} & {*records.generation_numbers(prefix)}
    lost = {n for n in once if not (prefix.generation(n) / records.ABANDONED).exists()}
    return sorted({*records.complete_numbers(prefix), *lost})


def named_manifests(prefix: Prefix) -> dict[str, str]:
    """Map each install to the sha256 of its manifest, as the newest generation that names it says: an install that was
    built again has another one since.
    """
    found: dict[str, str] = {}
    for record in records.read_records(prefix)[0].values():
        found |= record.manifests
    return found


def _folder_faults(folder: Path, owners: Collection[int] | None) -> Iterator[str]:
    try:
        status = _look(folder)
    except OSError as error:
        yield f"cannot be looked at: {error.strerror}"
        return
    if not stat.S_ISDIR(status.st_mode):
        yield "a link, where a folder was" if stat.S_ISLNK(status.st_mode) else "no folder"
        return
    if (mode := stat.S_IMODE(status.st_mode) & 0o777) != 0o555:
        yield f"mode changed to {mode:04o}"
    if owners is not None and status.st_uid not in owners:
        yield f"belongs to {user_name(status.st_uid)}"


def _look(folder: Path) -> os.stat_result:
    """Return the folder's status as the file server has it: a client of NFS answers by what it saw before, and asks at an
    opening. Another host may have published meanwhile. Raise OSError. Source: nfs(5), "Close-to-open cache consistency".
    """
    if not folder.is_symlink() and folder.is_dir():
        os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))
    return folder.lstat()


def _record(prefix: Prefix, number: int, told: str | None) -> tuple[records.GenerationRecord | None, list[Fault]]:
    path = prefix.generation(number) / records.RECORD
    where = str(path.relative_to(prefix.root))
    try:
        # Read once, so that the bytes with the right sha256 are the bytes that are parsed.
        content = read_regular(path)
    except OSError as error:
        why = "missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        return None, [Fault(where, why)]
    faults = []
    if told is not None and sha256_bytes(content) != told:
        faults.append(Fault(where, "sha256 changed, by what its publish wrote into the history"))
    try:
        record = records.parse_record(path, content)
    except EnvmgrError as error:
        words = "cannot be read" if error.reference == "generation-damaged" else error.message
        return None, [*faults, Fault(where, words)]
    if record.number != number:
        faults.append(Fault(where, f"it is the record of generation {record.number}"))
    return record, faults


def _tree_faults(look: TreeLook, record: records.GenerationRecord | None) -> Iterator[tuple[str, str]]:
    named = {} if record is None else record.files
    folders = {str(parent) for path in named for parent in Path(path).parents}
    folders.add("modules")  # which is empty without entries
    seen = {path.path: path for path in look.paths}
    for path in sorted({*seen, *named, *look.unread, *look.owners} - {""}):
        if path in look.owners:
            yield path, f"belongs to {user_name(look.owners[path])}, unlike the generation's folder"
        if path in look.unread:
            yield path, f"cannot be read: {look.unread[path]}"
        elif path not in seen:
            yield path, "missing"
        else:
            yield from ((path, found) for found in _path_faults(seen[path], named, folders, known=record is not None))


def _path_faults(path: TreePath, named: Mapping[str, str], folders: Collection[str], *, known: bool) -> Iterator[str]:
    mode = 0o555 if path.kind == "dir" or path.path.startswith(f"{SHIMS}/") else 0o444
    if path.path == records.RECORD:
        if path.kind != "file":
            return  # a record that cannot be read is already reported
    elif not known:
        return  # nothing says what belongs here
    elif path.path in named or path.path in folders:
        wanted = "file" if path.path in named else "dir"
        if path.kind != wanted:
            yield f"a {path.kind}, where a {wanted.replace('dir', 'folder')} was"
            return
        if wanted == "file" and path.sha256 != named[path.path]:
            yield "sha256 changed"
    else:
        yield "not in the generation's record"
        return
    if path.mode & 0o7777 != mode:
        yield f"mode changed to {path.mode:04o}"


def _spec_faults(folder: Path, record: records.GenerationRecord) -> Iterator[str]:
    """Yield installs of which record and specs, each as it was published, say different things."""
    path = folder / records.SPECS
    try:
        content = read_regular(path)
        if sha256_bytes(content) != record.files.get(records.SPECS):
            return  # already reported
        specs = records.parse_specs(path, content)
    except (OSError, EnvmgrError):
        return  # already reported
    for name in sorted({*specs, *record.entries}):
        if name not in specs or name not in record.entries:
            yield f"{name} is only in {'the record' if name in record.entries else 'it, and not in the record'}"
            continue
        entry, spec = record.entries[name], specs[name]["spec"]
        if (spec.get("digest"), os.path.basename(str(spec.get("root")))) != (entry.digest, entry.path.split("/")[-1]):  # noqa: PTH119 - text
            yield f"{name} has another install there than in the record"
