"""Stage a generation: its number, its files, its cache. Without the publish lock, which only its end needs.

What it stands on is held from `gc` meanwhile; its number is a hold's name, so that no other run, on whatever host, takes it for
one that a kill left.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from envmgr.errors import EnvmgrError
from envmgr.modules.pip_shim import render_shims
from envmgr.modules.render import render_tree
from envmgr.publish.change import (
    apply_change,
    changed_entries,
    check_dependencies,
    published_entries,
    refuse_name_clash,
)
from envmgr.publish.flips import once_current
from envmgr.publish.record import (
    ABANDONED,
    RECORD,
    SPECS,
    GenerationRecord,
    current_number,
    generation_numbers,
    read_record,
    read_specs,
    with_own_pythons,
)
from envmgr.publish.staged import Staged, Work, check_installs, manifests_of
from envmgr.publish.trust import require_good_flip, require_not_replayed, require_unchanged_generation
from envmgr.store.holds import holding
from envmgr.store.prefix import Prefix
from envmgr.system.files import atomic_write, explain_os_error, pretty_json, sha256_bytes, sha256_file
from envmgr.system.openat import change, empty_below
from envmgr.wording import utc_now


@contextmanager
def staging(work: Work) -> Iterator[tuple[int | None, Staged | None]]:
    """What `current` names, and the generation with the change put on it; none where the change is there already.

    It is given up at the end, with its number taken, unless it was completed. Raises EnvmgrError for what cannot be staged.
    """
    prefix = work.prefix
    parent, record, old = _read_parent(work)
    change = work.change.onto(old)
    merged = with_own_pythons(apply_change(old, change), prefix)
    entries = published_entries(merged, old, record, change, work.policies, work.templates)
    with explain_os_error(prefix.generations):
        prefix.generations.mkdir(parents=True, exist_ok=True)
    with ExitStack() as row:
        number = _hold_number(row, work, {path for entry in entries.values() for path in entry.paths})
        manifests = manifests_of(prefix, entries, change, record)
        changed = changed_entries(entries, manifests, record)
        if record is not None and not changed and record.render == work.render and not change.anew:
            yield parent, None
            return
        check_dependencies({k: item.spec.depends for k, item in merged.items()})
        refuse_name_clash(merged)
        check_installs(prefix, change)
        number, folder = _take_number(row, work, number, {path for entry in entries.values() for path in entry.paths})
        found = Staged(work, change, number, folder, parent, merged, entries, manifests, frozenset(changed), {})
        reason = "another generation became current first"
        try:
            _write(found)
            yield parent, found
        except BaseException as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise
        finally:
            if not found.done:
                with suppress(
                    OSError
                ):  # a lost mount: the error that is told is the first one; the next publish cleans up
                    abandon(prefix, number, reason)


def abandon(prefix: Prefix, number: int, reason: str) -> None:
    """Empty a generation but keep its number taken: numbers are never reused. OSError where a link of somebody else leads there."""
    folder = prefix.generation(number)
    empty_below(prefix.root, folder, keep=ABANDONED, first=RECORD)  # a half of it must not count as complete
    with suppress(EnvmgrError):  # a full disk: the empty folder alone keeps the number
        atomic_write(folder / ABANDONED, pretty_json({"time": utc_now(), "reason": reason}))


def _read_parent(work: Work) -> tuple[int | None, GenerationRecord | None, dict[str, Any]]:
    """What is current now; without the publish lock, it may be replaced and removed while it is read."""
    prefix = work.prefix
    if (base := work.change.base) is not None:
        if work.signer is not None:
            require_unchanged_generation(prefix, base, work.signer, work.reporter, made_again=True)
        return base, read_record(prefix, base), read_specs(prefix, base)
    while True:
        number = current_number(prefix)
        if number is None:
            return number, None, {}
        try:
            require_not_replayed(prefix, work.signer)
            if work.change.whole:
                return number, None, {}
            if work.signer is not None:
                if not work.change.anew:
                    require_good_flip(prefix, number, work.signer)
                require_unchanged_generation(prefix, number, work.signer, work.reporter, made_again=work.change.anew)
            return number, read_record(prefix, number), read_specs(prefix, number)
        except EnvmgrError:
            if current_number(prefix) == number:
                raise


def _hold_number(row: ExitStack, work: Work, paths: Iterable[str], above: int = 0) -> int:
    """The next number that nobody stages, or ever did; its row is there as long as `row`."""
    # Of flips, too: folders may be lost.
    number = max(above, *generation_numbers(work.prefix), *once_current(work.prefix), 0)
    while True:
        number += 1
        with suppress(FileExistsError):
            row.enter_context(holding(work.prefix, paths, work.runner, work.reporter, generation=number))
            return number


def _take_number(row: ExitStack, work: Work, number: int, paths: set[str]) -> tuple[int, Path]:
    """By exclusive mkdir. The row comes first: a folder without a living one is for the next run to clean."""
    while True:
        folder = work.prefix.generation(number)
        with explain_os_error(folder), suppress(FileExistsError):
            folder.mkdir()
            return number, folder
        row.close()
        number = _hold_number(row, work, paths, above=number)


def _write(staged: Staged) -> None:
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


def _write_modules(staged: Staged) -> dict[str, str]:
    """Write modules, pip's shims, lmodrc.lua and the specs; returns relative path -> sha256."""
    work, folder = staged.work, staged.folder
    specs = [item.spec for item in staged.merged.values()]
    rendered = render_tree(specs, generation=staged.number, policies=work.policies, templates=work.templates)
    texts = {f"modules/{p}": t for p, t in rendered.items()}
    programs = render_shims(specs, work.templates)
    texts |= programs
    texts["lmodrc.lua"] = work.lmod.lmodrc_text(folder / "spider")
    texts[SPECS] = pretty_json({name: item.model_dump(mode="json") for name, item in staged.merged.items()})
    with explain_os_error(folder):
        for name in sorted({str(parent) for p in texts for parent in Path(p).parents} | {"modules"}):
            (folder / name).mkdir(exist_ok=True)
            change(folder / name, mode=0o755)
        for path, text in texts.items():
            # Whatever the umask: all users load modules, and Lmod hides from root a file of root's that others cannot read.
            with (folder / path).open("x", encoding="utf-8") as file:
                file.write(text)
                os.fchmod(file.fileno(), 0o755 if path in programs else 0o644)
    work.lmod.check_syntax([folder / p for p in texts if p.endswith(".lua")])
    return {path: sha256_bytes(text.encode()) for path, text in texts.items()}
