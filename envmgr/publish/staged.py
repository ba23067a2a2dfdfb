"""A generation on its way: what it was made from, what it holds, whether it may become current."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import envmgr
from envmgr.errors import EnvmgrError
from envmgr.modules.lmod import Lmod
from envmgr.modules.spec import ModuleSpec
from envmgr.modules.statements import ModulePolicies
from envmgr.publish.change import Change, with_dependents
from envmgr.publish.flips import known_current
from envmgr.publish.record import (
    ABANDONED,
    RECORD,
    GenerationRecord,
    PublishedEntry,
    PublishedSpec,
    complete_numbers,
    current_number,
    read_record,
)
from envmgr.publish.signature import Signer
from envmgr.publish.verify import named_manifests
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.store.tree import make_read_only
from envmgr.system.files import (
    atomic_write,
    canonical_json,
    explain_os_error,
    read_regular,
    sha256_bytes,
    sha256_file,
    sync_file_system,
    sync_folder,
)
from envmgr.system.openat import change
from envmgr.system.run import Runner
from envmgr.system.usernames import own_name
from envmgr.wording import utc_now


@dataclass(frozen=True, slots=True)
class Work:
    """A change, and what it is staged with. `render` digests templates and policies."""

    change: Change
    prefix: Prefix
    policies: ModulePolicies
    render: str
    templates: Path
    lmod: Lmod
    runner: Runner
    reporter: Reporter
    signer: Signer | None


@dataclass(slots=True)
class Staged:
    """A generation on its way: what it was made from (`parent`), and what it holds. `files` has the sha256 of all but the record."""

    work: Work
    change: Change
    number: int
    folder: Path
    parent: int | None
    merged: Mapping[str, PublishedSpec]
    entries: dict[str, PublishedEntry]
    manifests: dict[str, str]
    changed: frozenset[str]
    files: dict[str, str]
    done: bool = False

    def fits(self) -> bool:
        """Whether it may become current as it is: nobody came in between. Under the publish lock only.

        Raises:
            EnvmgrError: `install-missing`; `repair-impossible` where it replaces all of what is not current any more.
        """
        prefix, change = self.work.prefix, self.change
        self.require_there()
        check_installs(prefix, change)
        current = known_current(prefix) if change.base is not None else current_number(prefix)
        if change.whole and current != self.parent:
            raise EnvmgrError(
                "repair-impossible",
                f"generation {current} became current while {self.parent} was made again",
                hint="`envmgr verify` tells what is left to do",
            )
        return (
            (current == self.parent or change.base is not None)
            and self.number > max(complete_numbers(prefix), default=0)
            and not (self.folder / ABANDONED).exists()
            and manifests_of(prefix, self.entries, change, recorded(prefix, self.parent, change)) == self.manifests
        )

    def require_there(self) -> None:
        """Raises EnvmgrError `mount-lost`: else the lock would be made below the folder that the prefix was mounted on."""
        with explain_os_error(self.folder):
            self.folder.stat()

    def tests(self) -> dict[str, tuple[str, ModuleSpec]]:
        """Every changed module, and all that load one of them -> the digest of what its smoke tests see, and the module."""
        return {
            name: (self._seen(name), spec) for name, spec in with_dependents(set(self.changed), self.merged).items()
        }

    def _seen(self, name: str) -> str:
        """Of the module and of all that it loads: the installs, all that decides the modules' texts but the generation's number, the tests."""
        seen: dict[str, object] = {}
        waiting = [name]
        while waiting:
            if (each := waiting.pop()) in seen:
                continue
            entry, spec = self.entries[each], self.merged[each].spec
            seen[each] = [
                entry.model_dump(mode="json"),
                spec.model_dump(mode="json"),
                {path: self.manifests.get(path) for path in entry.paths},
            ]
            waiting += spec.depends
        return sha256_bytes(canonical_json({"schema": 1, "render": self.work.render, "seen": seen}))

    def complete(self) -> str:
        """Write its record, last of all; returns the record's sha256. Under the publish lock only.

        Raises:
            EnvmgrError: `staged-changed` where its files are not those that were staged and tested.
        """
        self._require_untouched()
        folder, work = self.folder, self.work
        record = GenerationRecord(
            number=self.number,
            parent=self.parent,
            created=utc_now(),
            user=own_name(),
            host=socket.gethostname(),
            reason=work.change.reason,
            tools={"envmgr": envmgr.__version__, "lmod": work.lmod.version()},
            render=work.render,
            entries=self.entries,
            files=dict(sorted(self.files.items())),
            manifests=self.manifests,
        )
        with explain_os_error(folder):
            make_read_only(folder, mask=0o022)
            change(folder, mode=0o755)
            sync_file_system(folder)  # modules and cache reach the disk before the record that says they are complete
            text = record.model_dump_json(indent=1) + "\n"
            atomic_write(folder / RECORD, text, mode=0o444)
            change(folder, mode=0o555)
            sync_folder(folder.parent)
        self.done = True
        return sha256_bytes(text.encode())

    def _require_untouched(self) -> None:
        found: dict[str, str] = {}
        with explain_os_error(self.folder):
            for path in self.folder.rglob("*"):
                if path.is_symlink() or not path.is_dir():
                    with suppress(OSError):
                        found[str(path.relative_to(self.folder))] = sha256_bytes(read_regular(path))
        if wrong := sorted(path for path in {*found, *self.files} if found.get(path) != self.files.get(path)):
            raise EnvmgrError(
                "staged-changed",
                f"files of generation {self.number} changed after they were written",
                context=wrong[:10],
                hint="a smoke test wrote there, or somebody else: mend the test, then run the same command again",
            )


def recorded(prefix: Prefix, parent: int | None, change: Change) -> GenerationRecord | None:
    return None if parent is None or change.whole else read_record(prefix, parent)


def check_installs(prefix: Prefix, change: Change) -> None:
    """Looked at under a lock that `gc` takes too: what was there when the publish was planned may be gone."""
    for module in change.add.values():
        own = "/".join(Path(module.spec.root).parts[-3:])
        for path in (own, *module.facts.needs):
            install = prefix.install_at(path)
            if not install.exists():
                raise EnvmgrError(
                    "install-missing",
                    f"an install of {module.spec.entry} is gone",
                    context=str(install.path),
                    hint=f"run `envmgr build {module.spec.entry}` again",
                )


def manifests_of(
    prefix: Prefix, entries: Mapping[str, PublishedEntry], change: Change, record: GenerationRecord | None
) -> dict[str, str]:
    """Install -> sha256 of its manifest. What an earlier generation said stays, unless the install was made since: a manifest that
    was changed must not become the right one by the next publish.
    """
    known = record.manifests if record else {}
    if change.base is not None:  # since that one was published, installs may have been made again
        known = named_manifests(prefix)
    paths = sorted({path for entry in entries.values() for path in entry.paths})
    return {
        path: known[path] if path in known and path not in change.fresh else sha256_file(manifest)
        for path in paths
        if (manifest := prefix.install_at(path).manifest).is_file() or path in known
    }
