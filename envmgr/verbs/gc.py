"""`envmgr gc`: remove generations and installs that policy does not keep, and that are not in use."""

from __future__ import annotations

import datetime
import math
import os
import stat
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from envmgr.builds.prepare import can_write, clean_leftovers
from envmgr.builds.slurm import requested_installs, sweep
from envmgr.errors import EnvmgrError, InputError
from envmgr.publish import records
from envmgr.publish.candidates import offered
from envmgr.publish.flip_guards import require_not_replayed
from envmgr.publish.flips import flips, once_current
from envmgr.publish.gc_keeps import InUse, generations_in_use, installs_in_use, left_times
from envmgr.publish.generations import publishing, remove_generations
from envmgr.report import Lines, Result
from envmgr.steps import Context, logged, require_current_if_ever
from envmgr.steps.in_use import UsesFound, ask_in_use, names_nodes
from envmgr.steps.opening import become_build_user
from envmgr.store.image import remove_image
from envmgr.store.jobtable import held_installs
from envmgr.store.manifest import read_manifest, remove_install
from envmgr.store.prefix import Install, Prefix, installs
from envmgr.store.user_holds import clear_false_holds, read_holds
from envmgr.system.locks import file_lock
from envmgr.verbs import DryRun, needs, option
from envmgr.wording import counted, shortened, size_text

_ROWS = 200  # of `kept`
_REASONS = 10  # of `kept_all`
_NOTHING = "nothing is removed"


@dataclass(frozen=True, slots=True)
class Kept:
    """A path that is kept, relative to the prefix: `generations/0003`, `store/NAME/VERSION-DIGEST`."""

    path: str
    reason: str


_SHOWN = 20


@dataclass(frozen=True, slots=True)
class GcResult(Result):
    """The result of `gc`.

    `generations` and `installs` (paths relative to the prefix) were removed, or would be; `size` is bytes of files.
    `kept` is what would have been removed but is, or may be, in use: at most 200 rows, and `kept_more` others.
    `kept_all` are reasons why nothing could be removed. `asked` lists the asked hosts and Slurm, empty if policy keeps
    everything anyway. `users` says of whom a process was not looked at to its end, and what of theirs was no hold.
    """

    schema: ClassVar[str] = "envmgr.gc/1"
    generations: tuple[int, ...]
    installs: tuple[str, ...]
    leftovers: tuple[str, ...]
    size: int
    dry_run: bool
    log: str | None
    kept: tuple[Kept, ...] = ()
    kept_more: int = 0
    kept_all: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    def lines(self) -> Lines:
        verb = "would remove" if self.dry_run else "removed"
        for number in self.generations:
            yield f"{verb} generation {number}"
        for path in (*self.installs, *self.leftovers):
            yield f"{verb} {path}"
        for each in self.kept[:_SHOWN]:
            yield f"kept {each.path}: {each.reason}"
        if (more := len(self.kept) - _SHOWN + self.kept_more) > 0:
            yield f"kept {more} more; `--format json` tells {'more of them' if self.kept_more else 'them'}"
        for reason in self.kept_all:
            yield f"kept all that may be in use: {reason}"
        yield from shortened(self.users)
        if not (self.generations or self.installs or self.leftovers):
            yield "nothing to remove"
            return
        generations, installs = counted(len(self.generations), "generations"), counted(len(self.installs), "installs")
        yield f"{verb} {generations}, {installs}, {size_text(self.size)}"


@dataclass(frozen=True, slots=True)
class _State:
    """The state of generations. `left`: generation -> when it was last left. `old` are those that policy does not
    keep.
    """

    complete: list[int]
    readable: Mapping[int, records.GenerationRecord]
    damaged: Collection[int]
    left: Mapping[int, float]
    old: list[int]


@dataclass(frozen=True, slots=True)
class _Chosen:
    generations: list[int]
    installs: list[Install]
    kept: list[Kept]


@needs("mount")
def gc(
    ctx: Context,
    dry_run: DryRun = False,
    now: Annotated[bool, option("Ignore the age of generations, as if keep_days were 0.")] = False,
) -> GcResult:
    """Remove old generations and unused installs.

    The site's `policies` say which generations are old. An install is unused when no remaining generation names it.
    What a process of this host or of a node, or a Slurm job, uses or may use is kept, and reported.
    """
    prefix, days = ctx.prefix, 0.0 if now else ctx.site.policies.keep_days
    if days == 0 and not now and names_nodes(ctx):
        message = "policies.keep_days is 0, and the site names nodes"
        lost = "a shell or a job that cannot be seen on them would lose its modules"
        now_too = "`envmgr gc --now`, which removes what nobody was seen to use"
        hint = f"`keep_days` longer than the longest session; or {now_too}"
        raise InputError("gc-keeps-no-days", message, context=lost, hint=hint)
    if not dry_run and (os.geteuid() != 0 or not prefix.root.is_dir()):
        become_build_user(ctx.site)
        can_write(ctx.site)
    if not prefix.root.is_dir():
        return GcResult((), (), (), 0, dry_run, None)
    require_not_replayed(prefix, ctx.signer, _NOTHING)
    # Nodes and Slurm are asked only if policy would remove something.
    before = _choose(ctx, days, None, InUse({}))
    paths = [f"generations/{number:04d}" for number in before.generations] + [i.relative for i in before.installs]
    asked = ask_in_use(ctx, days, paths) if paths else UsesFound()
    for path, who in read_holds(ctx.site):
        asked.named.setdefault(path, []).append(who)
    if dry_run:
        asked.users += clear_false_holds(ctx.site, dry_run=True)
        chosen = _choose(ctx, days, before, asked.found())
        return _result(chosen, asked, [], sum(_size(i) for i in chosen.installs), None)
    become_build_user(ctx.site)
    can_write(ctx.site)
    asked.users += clear_false_holds(ctx.site)
    with logged(ctx, "gc") as (inner, log), publishing(prefix, ctx.runner, inner.reporter):
        # Again under the lock: someone may have moved `current` back since the first look.
        require_not_replayed(prefix, ctx.signer, _NOTHING)
        sweep(ctx.site, ctx.runner)
        leftovers = clean_leftovers(prefix, inner.reporter)
        with file_lock(prefix.hold_lock, check=ctx.runner.raise_if_cancelled):
            # Chosen again under the lock of holds: no run can take an install between this choice and its removal.
            chosen = _choose(ctx, days, before, asked.found(), renew=True)
            for each in chosen.kept:
                inner.reporter.log(f"kept {each.path}: {each.reason}")
            # Generations go first: after a kill here no generation names an install that is gone.
            remove_generations(chosen.generations, prefix)
            size = 0
            for install in chosen.installs:
                with file_lock(install.lock, check=ctx.runner.raise_if_cancelled):
                    size += _size(install)
                    remove_install(install)
                    remove_image(install)
    return _result(chosen, asked, leftovers, size, str(log))


def _result(chosen: _Chosen, asked: UsesFound, leftovers: list[str], size: int, log: str | None) -> GcResult:
    unknown = asked.found().unknown
    more = len(unknown) - _REASONS
    reasons = (*unknown[:_REASONS], *([f"and {more} more"] if more > 0 else []))
    kept = () if unknown else tuple(chosen.kept)
    rows, others = kept[:_ROWS], max(0, len(kept) - _ROWS)
    gone = tuple(chosen.generations), tuple(i.relative for i in chosen.installs), tuple(leftovers)
    users = tuple(shortened(asked.users, _ROWS))
    return GcResult(*gone, size, log is None, log, rows, others, reasons, tuple(asked.of), users)


def _choose(ctx: Context, days: float, before: _Chosen | None, found: InUse, *, renew: bool = False) -> _Chosen:
    """Return what is to be removed, among what was chosen `before` others were asked.

    Without `before`: all that may be removed, even if somebody uses or holds it. `renew` lists of holds, which touches
    their folders: an old list may lack what another host holds.
    """
    prefix = ctx.prefix
    oldest = time.time() - days * 86400
    state = _state(ctx, oldest)
    old = [n for n in state.old if before is None or n in before.generations]
    in_use = generations_in_use(old, state.left, found)
    gone = [n for n in old if n not in in_use]
    used = _named(prefix, state, {*state.complete} - {*gone})
    unused = [i for i in installs(prefix) if i.relative not in used and _changed(i.manifest) < oldest]
    if before is not None:
        held = held_installs(prefix, renew=renew) | requested_installs(prefix, renew=renew)
        asked = {i.relative for i in before.installs}
        unused = [i for i in unused if i.relative in asked and i.relative not in held]
    installs_kept = installs_in_use([i.relative for i in unused], lambda path: _needs(prefix, path), found)
    kept = [Kept(f"generations/{number:04d}", reason) for number, reason in in_use.items()]
    kept += [Kept(path, reason) for path, reason in sorted(installs_kept.items())]
    return _Chosen(gone, [i for i in unused if i.relative not in installs_kept], kept)


def _state(ctx: Context, oldest: float) -> _State:
    prefix = ctx.prefix
    require_current_if_ever(ctx)  # else all would seem unused
    complete = records.complete_numbers(prefix)
    readable, damaged = records.read_records(prefix)
    created = {n: _seconds(r.created, prefix, n) for n, r in readable.items()}
    created |= {n: _written(prefix, n) for n in damaged}
    current = records.current_number(prefix)
    left = left_times(flips(prefix), created, current)
    waiting = records.candidate_numbers(prefix) - once_current(prefix)
    # Nobody but volunteers uses a candidate: one that is not the newest was left when it was made.
    left |= {number: created[number] for number in waiting if number in created}
    published = [number for number in complete if number not in waiting]
    kept = {*published[-ctx.site.policies.keep_generations :], current, *_with_parent(offered(prefix), readable)}
    old = [n for n in complete if n not in kept and left[n] <= oldest]
    return _State(complete, readable, [*damaged], left, old)


def _with_parent(candidate: int | None, readable: Mapping[int, records.GenerationRecord]) -> set[int | None]:
    """Return the newest candidate and what it was made from, which a rebase reads."""
    record = None if candidate is None else readable.get(candidate)
    return {candidate, record.parent} if record is not None else {candidate}


def _named(prefix: Prefix, state: _State, numbers: Collection[int]) -> set[str]:
    """Return the installs that these generations name."""
    used = {path for n, r in state.readable.items() if n in numbers for e in r.entries.values() for path in e.paths}
    return used | {path for n in state.damaged if n in numbers for path in records.mentioned_installs(prefix, n)}


def _needs(prefix: Prefix, path: str) -> Iterable[str]:
    try:
        return read_manifest(prefix.install_at(path).manifest).facts.needs
    except EnvmgrError:
        return ()


def _seconds(created: str, prefix: Prefix, number: int) -> float:
    try:
        return datetime.datetime.fromisoformat(created).timestamp()
    except (ValueError, OverflowError):
        return _written(prefix, number)


def _written(prefix: Prefix, number: int) -> float:
    """Return when the record of a generation was last written."""
    return _changed(prefix.generation(number) / records.RECORD)


def _changed(path: Path) -> float:
    """Return when a file was last written; infinity for one that another run has just removed."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return math.inf


def _size(install: Install) -> int:
    size = 0
    with suppress(OSError):  # another run takes it away
        for path in (*install.path.rglob("*"), *([install.image] if install.image.exists() else [])):
            status = path.lstat()
            size += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return size
