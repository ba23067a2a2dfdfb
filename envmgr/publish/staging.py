"""A generation that is not published yet: staged with its modules and cache, checked, and made ready for the flip."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import envmgr
from envmgr.errors import EnvmgrError
from envmgr.modules.lmod import Lmod
from envmgr.modules.render import render_shims, render_tree
from envmgr.modules.spec import ModuleSpec
from envmgr.modules.statements import ModulePolicies
from envmgr.publish import plan, records
from envmgr.publish.candidates import find_same, mark
from envmgr.publish.expected import with_expected
from envmgr.publish.extras import Extra, GenerationContents, write_extras
from envmgr.publish.flip_guards import require_good_flip, require_not_replayed, require_unchanged_generation
from envmgr.publish.flips import once_current
from envmgr.publish.kernels import render_kernels
from envmgr.publish.signature import Signer
from envmgr.report import Reporter
from envmgr.store.jobtable import holding
from envmgr.store.prefix import Prefix
from envmgr.store.tree import make_read_only
from envmgr.system.files import (
    atomic_write,
    canonical_json,
    explain_os_error,
    pretty_json,
    read_regular,
    sha256_bytes,
    sha256_file,
    sync_file_system,
    sync_folder,
)
from envmgr.system.run import Runner
from envmgr.system.safe_paths import change, empty_below
from envmgr.system.usernames import own_name
from envmgr.wording import utc_now


@dataclass(frozen=True, slots=True)
class StagingWork:
    """A change, and what it is staged with. `render` digests templates and policies; `extras` are folders beside the
    modules, and what makes their files.
    """

    change: plan.Change
    prefix: Prefix
    policies: ModulePolicies
    render: str
    templates: Path
    lmod: Lmod
    runner: Runner
    reporter: Reporter
    signer: Signer | None
    extras: Mapping[str, Extra]


@dataclass(slots=True)
class StagedGeneration:
    """A generation on its way: what it was made from (`parent`), and what it holds. `files` has the sha256 of all but
    the record. `created` is when it was staged.
    """

    work: StagingWork
    change: plan.Change
    number: int
    folder: Path
    parent: int | None
    merged: Mapping[str, records.PublishedSpec]
    entries: dict[str, records.PublishedEntry]
    manifests: dict[str, str]
    changed: frozenset[str]
    files: dict[str, str]
    created: str
    done: bool = False

    def fits(self) -> bool:
        """Return whether it may become current unchanged: no other publish came in between. Only under the publish
        lock.

        Raises:
            EnvmgrError: `install-missing`.
        """
        prefix, change = self.work.prefix, self.change
        self.require_there()
        check_installs(prefix, change)
        return (
            records.current_number(prefix) == self.parent
            # A rollback and a way back leave `current` as it was, but a higher number may be complete by then.
            and self.number > max(records.complete_numbers(prefix, candidates=False), default=0)
            and not (self.folder / records.ABANDONED).exists()
            and manifests_of(prefix, self.entries, change, parent_record(prefix, self.parent)) == self.manifests
        )

    def require_there(self) -> None:
        """Raise EnvmgrError `mount-lost`: otherwise the lock would be made below the folder that the prefix was mounted
        on.
        """
        with explain_os_error(self.folder):
            self.folder.stat()

    def tests(self) -> dict[str, tuple[str, ModuleSpec]]:
        """Map every changed module, and all that load one of them, to the digest of what its smoke tests see, and the
        module.
        """
        modules = plan.with_dependents(set(self.changed), self.merged)
        seen = seen_by_tests(modules, self.merged, self.entries, self.manifests, self.work.render)
        return {name: (seen[name], spec) for name, spec in modules.items()}

    def complete(self) -> str:
        """Write its record, last of all; returns the record's sha256. Under the publish lock only.

        Raises:
            EnvmgrError: `staged-changed` where its files are not those that were staged and tested.
        """
        # Smoke tests ran since the files were written, with this user's rights.
        self._require_untouched()
        folder, work = self.folder, self.work
        record = records.GenerationRecord(
            number=self.number,
            parent=self.parent,
            created=self.created,
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
            # The folder itself stays writable for one moment more: its record comes last.
            make_read_only(folder, mask=0o022)
            change(folder, mode=0o755)
            sync_file_system(folder)  # modules and cache reach the disk before the record that says they are complete
            text = record.model_dump_json(indent=1) + "\n"
            if self.change.candidate:
                sha256 = sha256_bytes(text.encode())
                mark(work.prefix, self.number, self.parent, sha256, work.signer, work.reporter)
            atomic_write(folder / records.RECORD, text, mode=0o444)
            change(folder, mode=0o555)
            # A crash must not lose the folder's own name after `current` names it.
            sync_folder(folder.parent)
        self.done = True
        return sha256_bytes(text.encode())

    def _require_untouched(self) -> None:
        found: dict[str, str] = {}
        with explain_os_error(self.folder):
            # A link, a pipe or a file that cannot be read gets no digest here, and so counts as changed.
            for path in self.folder.rglob("*"):
                if path.is_symlink() or not path.is_dir():
                    with suppress(OSError):
                        found[str(path.relative_to(self.folder))] = sha256_bytes(read_regular(path))
        if wrong := sorted(path for path in {*found, *self.files} if found.get(path) != self.files.get(path)):
            raise EnvmgrError(
                "staged-changed",
                f"files of generation {self.number} changed after they were written",
                context=wrong[:10],
                hint="a smoke test wrote there, or somebody else did: fix the test, then run the same command again",
            )


def seen_by_tests(
    names: Iterable[str],
    merged: Mapping[str, records.PublishedSpec],
    entries: Mapping[str, records.PublishedEntry],
    manifests: Mapping[str, str],
    render: str,
) -> dict[str, str]:
    """Map each name to the digest of the module and of all that it loads: the installs, all that decides the modules'
    texts except the generation's number, the tests.
    """
    found = {}
    for name in names:
        seen: dict[str, object] = {}
        waiting = [name]
        while waiting:
            # Two modules may load the same third one: each is digested once.
            if (each := waiting.pop()) in seen:
                continue
            entry, spec = entries[each], merged[each].spec
            seen[each] = [
                entry.model_dump(mode="json"),
                spec.model_dump(mode="json"),
                {path: manifests.get(path) for path in entry.paths},
            ]
            waiting += spec.depends
        found[name] = sha256_bytes(canonical_json({"schema": 1, "render": render, "seen": seen}))
    return found


def parent_record(prefix: Prefix, parent: int | None) -> records.GenerationRecord | None:
    return None if parent is None else records.read_record(prefix, parent)


def check_installs(prefix: Prefix, change: plan.Change) -> None:
    """Require that every install still exists, under a lock that `gc` also takes: it may be gone since the plan was
    made.
    """
    for module in change.add.values():
        for path in (prefix.named(module.spec.root), *module.facts.needs):
            install = prefix.install_at(path)
            if not install.exists():
                raise EnvmgrError(
                    "install-missing",
                    f"an install of {module.spec.entry} is gone",
                    context=str(install.path),
                    hint=f"run `envmgr build {module.spec.entry}` again",
                )


def manifests_of(
    prefix: Prefix,
    entries: Mapping[str, records.PublishedEntry],
    change: plan.Change,
    record: records.GenerationRecord | None,
) -> dict[str, str]:
    """Map each install to the sha256 of its manifest. What an earlier generation said stays, unless the install was
    made since: a changed manifest must not become the right one by the next publish.
    """
    known = record.manifests if record else {}
    paths = sorted({path for entry in entries.values() for path in entry.paths})
    return {
        path: known[path] if path in known and path not in change.fresh else sha256_file(manifest)
        for path in paths
        if (manifest := prefix.install_at(path).manifest).is_file() or path in known
    }


@contextmanager
def staging(work: StagingWork) -> Iterator[tuple[int | None, StagedGeneration | int | None]]:
    """Yield what `current` names, and the generation with the change put on it; no generation if the change is there
    already, and the number of a candidate that is the same.

    It is given up at the end, with its number taken, unless it was completed. Raise EnvmgrError for what cannot be
    staged.
    """
    prefix = work.prefix
    parent, record, old = _read_parent(work)
    change = work.change.onto(old)
    merged = plan.apply_change(old, change)
    entries = plan.published_entries(merged, old, record, change, work.policies, work.templates, prefix)
    with explain_os_error(prefix.generations):
        prefix.generations.mkdir(parents=True, exist_ok=True)
    with ExitStack() as row:
        # The row comes before the manifests are read: from here on `gc` keeps the installs.
        number = _hold_number(row, work, {path for entry in entries.values() for path in entry.paths})
        manifests = manifests_of(prefix, entries, change, record)
        changed = plan.changed_entries(entries, manifests, record)
        if record is not None and not changed and record.render == work.render and not change.anew:
            yield parent, None
            return
        if change.candidate and (same := find_same(prefix, parent, entries, manifests, work.render)):
            work.reporter.say(f"candidate {same} is the same already")
            yield parent, same
            return
        plan.check_dependencies({k: item.spec.depends for k, item in merged.items()})
        plan.refuse_name_clash(merged)
        # `gc` may have removed an install before the row was there.
        check_installs(prefix, change)
        merged = with_expected(merged, old, changed, manifests, prefix)
        number, folder = _take_number(row, work, number, {path for entry in entries.values() for path in entry.paths})
        found = StagedGeneration(
            work, change, number, folder, parent, merged, entries, manifests, frozenset(changed), {}, utc_now()
        )
        reason = "another generation became current first"
        try:
            _write(found)
            yield parent, found
        except BaseException as error:
            # The abandoned folder keeps this, also for Ctrl-C: the number's gap can be explained later.
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise
        finally:
            if not found.done:
                with suppress(OSError):  # a lost mount: the first error is reported; the next publish cleans up
                    abandon(prefix, number, reason)


def abandon(prefix: Prefix, number: int, reason: str) -> None:
    """Empty a generation but keep its number taken: numbers are never reused. OSError if another user's link leads
    there.
    """
    folder = prefix.generation(number)
    # A half of it must not count as complete.
    empty_below(prefix.root, folder, keep=records.ABANDONED, first=records.RECORD)
    with suppress(EnvmgrError):  # a full disk: the empty folder is enough to keep the number
        atomic_write(folder / records.ABANDONED, pretty_json({"time": utc_now(), "reason": reason}))


def _read_parent(work: StagingWork) -> tuple[int | None, records.GenerationRecord | None, dict[str, Any]]:
    """Return what is current now; without the publish lock, it may be replaced and removed while it is read."""
    prefix = work.prefix
    while True:
        number = records.current_number(prefix)
        if number is None:
            return number, None, {}
        try:
            require_not_replayed(prefix, work.signer)
            if work.signer is not None:
                if not work.change.anew:
                    require_good_flip(prefix, number, work.signer)
                require_unchanged_generation(prefix, number, work.signer, work.reporter, made_again=work.change.anew)
            return number, records.read_record(prefix, number), records.read_specs(prefix, number)
        except EnvmgrError:
            # Nothing holds the lock here: a publish and a gc may have replaced and removed that generation meanwhile.
            # Then the error says nothing, and what is current now is read.
            if records.current_number(prefix) == number:
                raise


def _hold_number(row: ExitStack, work: StagingWork, paths: Iterable[str], above: int = 0) -> int:
    """Return the next number that is not in use and never was; its row exists as long as `row`."""
    # Of flips, too: folders may be lost.
    number = max(above, *records.generation_numbers(work.prefix), *once_current(work.prefix), 0)
    while True:
        number += 1
        with suppress(FileExistsError):
            row.enter_context(holding(work.prefix, paths, work.runner, work.reporter, generation=number))
            return number


def _take_number(row: ExitStack, work: StagingWork, number: int, paths: set[str]) -> tuple[int, Path]:
    """Take the number by exclusive mkdir. The row comes first: a folder without a living row is for the next run to
    clean.
    """
    while True:
        folder = work.prefix.generation(number)
        with explain_os_error(folder), suppress(FileExistsError):
            folder.mkdir()
            return number, folder
        # Another publish took the folder between the row and the mkdir: this number is its own now.
        row.close()
        number = _hold_number(row, work, paths, above=number)


def _write(staged: StagedGeneration) -> None:
    work, folder = staged.work, staged.folder
    with work.reporter.stage(f"generation {staged.number} modules", total=len(staged.merged), unit="modules") as stage:
        staged.files |= _write_modules(staged)
        stage.update(len(staged.merged))
    with work.reporter.stage(f"generation {staged.number} spider cache"):
        work.lmod.build_spider_cache(folder / "modules", folder / "spider")
        work.lmod.check_syntax([folder / "spider" / "spiderT.lua"])  # Lmod does not notice a full disk
        for path in (folder / "spider").rglob("*"):
            if path.is_file():
                staged.files[str(path.relative_to(folder))] = sha256_file(path)
    specs = {name: item.spec for name, item in staged.merged.items()}
    reason = staged.change.reason
    contents = GenerationContents(staged.number, staged.parent, staged.created, reason, staged.entries, specs)
    staged.files |= write_extras(folder, work.extras, contents, work.reporter)


def _write_modules(staged: StagedGeneration) -> dict[str, str]:
    """Write modules, pip's shims, kernels, lmodrc.lua and the specs; returns relative path -> sha256."""
    work, folder = staged.work, staged.folder
    specs = [item.spec for item in staged.merged.values()]
    rendered = render_tree(specs, generation=staged.number, policies=work.policies, templates=work.templates)
    texts = {f"modules/{p}": t for p, t in rendered.items()}
    programs = render_shims(specs, work.templates)
    texts |= programs
    texts |= render_kernels({spec.entry: spec for spec in specs}, staged.number, work.policies, work.prefix)
    texts["lmodrc.lua"] = work.lmod.lmodrc_text(folder / "spider")
    texts[records.SPECS] = pretty_json({name: item.model_dump(mode="json") for name, item in staged.merged.items()})
    with explain_os_error(folder):
        # Sorted, so that each folder is made before those in it.
        for name in sorted({str(parent) for p in texts for parent in Path(p).parents} | {"modules"}):
            (folder / name).mkdir(exist_ok=True)
            change(folder / name, mode=0o755)
        for path, text in texts.items():
            # Whatever the umask: all users load modules, and Lmod hides from root a file of root's that others cannot
            # read.
            with (folder / path).open("x", encoding="utf-8") as file:
                file.write(text)
                os.fchmod(file.fileno(), 0o755 if path in programs else 0o644)
    work.lmod.check_syntax([folder / p for p in texts if p.endswith(".lua")])
    return {path: sha256_bytes(text.encode()) for path, text in texts.items()}
