"""Publish a generation by one rename, go back, clean up: everything that needs the prefix's publish lock. Smoke tests
run without it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.modules.lmod import Lmod
from envmgr.modules.render import render_digest, templates_digest
from envmgr.modules.spec import ModuleSpec
from envmgr.modules.statements import ModulePolicies
from envmgr.publish import records
from envmgr.publish.candidates import last_withdrawn, read_candidate, require_promotable, settle_candidates, withdraw
from envmgr.publish.extras import Extra
from envmgr.publish.flip_checks import accepting, gaps
from envmgr.publish.flip_guards import (
    find_replay,
    require_good_flip,
    require_not_replayed,
    require_unchanged_generation,
)
from envmgr.publish.flipfile import OvertakenError
from envmgr.publish.flips import flip, known_current, last_current, lost_lines, settle, write_history_again
from envmgr.publish.plan import Change
from envmgr.publish.signature import Signer
from envmgr.publish.staging import StagedGeneration, StagingWork, abandon, staging
from envmgr.report import Reporter, SilentReporter
from envmgr.store.jobtable import is_staged, remove_dead_holds
from envmgr.store.node_tests import node_tests_file
from envmgr.store.prefix import Prefix
from envmgr.system.files import explain_os_error
from envmgr.system.locks import file_lock
from envmgr.system.pulse import renew_listing
from envmgr.system.run import Runner
from envmgr.system.safe_paths import change

_OVERTAKEN = 3  # times that a publish tests again what another one changed, before it tests under the lock


@dataclass(frozen=True, slots=True)
class PublishedChange:
    """A published change. `number` is None if the rebased change was already there, and a candidate's that was;
    `parent` is the former `current`.
    """

    number: int | None
    parent: int | None
    changed: tuple[str, ...]


Done = TypeVar("Done")

StagedCheck = Callable[[Path, Path, Mapping[str, ModuleSpec]], None]
"""Gets the staged modules folder, its lmodrc.lua and the changed modules; raises to keep `current` as it is."""


@contextmanager
def publishing(prefix: Prefix, runner: Runner, reporter: Reporter) -> Iterator[frozenset[int]]:
    """Hold the one prefix lock. First clean up what a killed publish left; a living publish is not touched.

    Yields the numbers of the flips that exist, before anything else is read: a flip that finds others was overtaken,
    even if the lock did not work.
    """

    def waiting(holder: str) -> None:
        reporter.say(f"waiting for {holder}, which publishes")

    with file_lock(prefix.publish_lock, on_wait=waiting, check=runner.raise_if_cancelled):
        with explain_os_error(prefix.generations):
            prefix.generations.mkdir(exist_ok=True)
            _clean_incomplete(prefix, reporter)
        known = settle(prefix, reporter)
        settle_candidates(prefix, reporter)
        yield known


def publish(
    change: Change,
    site: Site,
    lmod: Lmod,
    runner: Runner,
    reporter: Reporter,
    *,
    templates: Path,
    check: StagedCheck,
    signer: Signer | None,
    extras: Mapping[str, Extra],
    tested: Collection[str] = (),
) -> PublishedChange:
    """Stage `current` plus `change` and let `check` judge it, without the lock; with the lock, flip if `current` is the
    same.

    Otherwise the change is applied to what is then current; only changed modules are checked again. `tested` are
    digests of `seen_by_tests` that passed before.

    Raises:
        EnvmgrError: any error of staging or `check`; `current` is then untouched, and the number stays taken.
    """
    prefix, policies = Prefix(site.prefix), ModulePolicies.from_site(site)
    digest = render_digest(templates_digest(templates), policies)
    work = StagingWork(change, prefix, policies, digest, templates, lmod, runner, reporter, signer, extras)
    passed = set(tested)
    with ExitStack() as staged_now:
        parent, staged = staged_now.enter_context(staging(work))
        overtaken = 0
        while isinstance(staged, StagedGeneration):
            _test(staged, passed, check)
            staged.require_there()
            with suppress(OvertakenError), publishing(prefix, runner, reporter) as known:
                if staged.fits():
                    return _finish(staged, known)
                same = frozenset(change.add) - staged.changed if not overtaken else work.change.same
                work = replace(work, change=replace(change, same=same))
                staged_now.close()
                parent, staged = staged_now.enter_context(staging(work))
                if not isinstance(staged, StagedGeneration):
                    break
                reporter.say(f"generation {parent} became current meanwhile: the change is put on it")
                overtaken += 1
                # Others publish again and again: from now on the tests run under the lock, where nobody can overtake.
                if overtaken > _OVERTAKEN:
                    _test(staged, passed, check)
                if passed.issuperset(digest for digest, _ in staged.tests().values()):
                    return _finish(staged, known)
    return PublishedChange(staged, parent, ())


def _test(staged: StagedGeneration, passed: set[str], check: StagedCheck) -> None:
    """Check what was staged, except what passed already, by the digest of what was tested."""
    tests = staged.tests()
    check(
        staged.folder / "modules",
        staged.folder / "lmodrc.lua",
        {name: spec for name, (digest, spec) in tests.items() if digest not in passed},
    )
    passed |= {digest for digest, _ in tests.values()}


def _finish(staged: StagedGeneration, known: Collection[int]) -> PublishedChange:
    """Complete the generation and flip.

    If it cannot become current it is abandoned, so that it does not count as a kept generation.
    """
    record = staged.complete()
    work, number, parent = staged.work, staged.number, staged.parent
    if not work.change.candidate:
        prefix, reason, reporter, signer = work.prefix, work.change.reason, work.reporter, work.signer
        try:
            flip(prefix, number, parent, reason, reporter, action="publish", signer=signer, record=record, known=known)
        except BaseException:
            # The flip may have come before the error: a generation that is current must not be abandoned.
            staged.done = known_current(prefix) == number
            raise
    settle_candidates(work.prefix, work.reporter)
    return PublishedChange(number, parent, tuple(sorted(staged.changed)))


def rollback(
    number: int, prefix: Prefix, runner: Runner, reporter: Reporter, *, signer: Signer | None
) -> tuple[int, int]:
    """Point `current` at an earlier (or later) complete generation; return (from, to).

    It makes a damaged `current` right, and a history that lost lines, also where `number` is current already: (from)
    is then the last number that the history knows.

    Raises:
        EnvmgrError: `no-generation`, `nothing-published`, `install-missing` if one of its installs is gone;
            `flip-untrusted` if someone moved `current` back, and another generation than `number` is the right one.
    """

    def go(known: Collection[int]) -> tuple[int, int]:
        before = last_current(prefix)
        if before is None:
            raise EnvmgrError("nothing-published", "nothing was published yet", context=str(prefix.root))
        require_no_candidate(prefix, number)
        _require_installs(prefix, number)
        replay = None if signer is None else find_replay(prefix, signer)
        if replay is not None and replay.right not in (None, number):
            raise replay.error("fix that before you make another generation current")
        # After a replay `current` may name this generation already, but only a new flip makes it right.
        if known_current(prefix) != number or replay is not None:
            digest = None if signer is None else require_unchanged_generation(prefix, number, signer, reporter)
            why = f"rollback to {number}"
            flip(prefix, number, before, why, reporter, action="rollback", signer=signer, record=digest, known=known)
            settle_candidates(prefix, reporter)
        if lost_lines(prefix):
            write_history_again(prefix, reporter, signer)
        return before, number

    return _until_first(go, prefix, runner, reporter)


@dataclass(frozen=True, slots=True)
class Promoted:
    """A candidate that became current. `before` was current, None for nothing; `sequence` is the flip's number."""

    number: int
    before: int | None
    sequence: int


def promote(
    number: int, prefix: Prefix, runner: Runner, reporter: Reporter, *, signer: Signer | None, check: Callable[[], None]
) -> Promoted:
    """Make a candidate current, by one flip. `check` says under the lock whether its tests allow that, and raises.

    Raises:
        EnvmgrError: `no-generation`, `not-a-candidate`, `candidate-outdated`, `generation-changed`, `install-missing`;
            `flip-untrusted` if someone moved `current` back, or what is current is not signed.
    """

    def go(known: Collection[int]) -> Promoted:
        found = read_candidate(prefix, number)
        current = records.current_number(prefix)
        if current is not None and signer is not None:
            require_good_flip(prefix, current, signer)
        require_promotable(prefix, found, current, signer)
        _require_installs(prefix, number)
        check()
        why, record = f"promote {number}", found.record.record
        sequence = flip(
            prefix, number, current, why, reporter, action="publish", signer=signer, record=record, known=known
        )
        settle_candidates(prefix, reporter)
        return Promoted(number, current, sequence)

    return _until_first(go, prefix, runner, reporter)


def withdraw_candidate(number: int, prefix: Prefix, runner: Runner, reporter: Reporter) -> None:
    """Offer a candidate, and those before it, to nobody any more. Raise EnvmgrError as `candidates.withdraw`."""
    with publishing(prefix, runner, reporter):
        withdraw(prefix, number, reporter)


def _require_installs(prefix: Prefix, number: int) -> None:
    """Raise EnvmgrError `install-missing` if an install of the generation is gone."""
    record = records.read_record(prefix, number)
    named = [(name, path) for name, entry in record.entries.items() for path in entry.paths]
    lost = [(name, path) for name, path in named if not prefix.install_at(path).exists()]
    if lost:
        raise EnvmgrError(
            "install-missing",
            f"generation {number} names installs that are gone",
            context=[f"{name}: {path}" for name, path in lost],
            hint=records.make_again(prefix, number),
        )


def require_no_candidate(prefix: Prefix, number: int) -> None:
    """Raise EnvmgrError `is-a-candidate` for a generation that was never current; as `read_record` for none."""
    records.read_record(prefix, number)
    if number in records.candidate_numbers(prefix):
        raise EnvmgrError(
            "is-a-candidate",
            f"generation {number} is a candidate: it was never current",
            context=str(prefix.generation(number)),
            hint=f"`envmgr promote {number}` makes it current"
            if number > last_withdrawn(prefix)
            else "it was withdrawn: `envmgr publish --candidate ENTRY` makes another one of what is built",
        )


def sign(
    prefix: Prefix, runner: Runner, reporter: Reporter, *, signer: Signer, accept_gap: bool = False
) -> tuple[int, int]:
    """Write a new, signed flip for the generation that is current; return (generation, sequence). With `accept_gap` it
    also says which flips are lost.

    Raises:
        EnvmgrError: `nothing-published`, `generation-changed` if it is not as it was published, `flip-untrusted` if
            someone moved `current` back to it, `not-signed`.
    """

    def go(known: Collection[int]) -> tuple[int, int]:
        number = records.current_number(prefix)
        if number is None:
            raise EnvmgrError("nothing-published", "nothing was published yet", context=str(prefix.root))
        require_not_replayed(prefix, signer, "it is not signed")
        digest = require_unchanged_generation(prefix, number, signer, reporter)
        lost = gaps(prefix, signer) if accept_gap else []
        done = flip(
            prefix, number, number, accepting(lost), reporter, action="sign", signer=signer, record=digest, known=known
        )
        return number, done

    return _until_first(go, prefix, runner, reporter)


def _until_first(go: Callable[[Collection[int]], Done], prefix: Prefix, runner: Runner, reporter: Reporter) -> Done:
    """Run `go` under the publish lock, and start again if a run on another host made a flip meanwhile."""
    while True:
        with suppress(OvertakenError), publishing(prefix, runner, reporter) as known:
            return go(known)


def remove_generations(numbers: list[int], prefix: Prefix) -> None:
    """Forget generations, keeping the numbers taken. Under `publishing` only."""
    for number in numbers:
        abandon(prefix, number, "removed by gc")
        node_tests_file(prefix, number).unlink(missing_ok=True)
    settle_candidates(prefix, SilentReporter())


def _clean_incomplete(prefix: Prefix, reporter: Reporter) -> None:
    # NFS may give a list that is a minute old and lacks another host's generation.
    renew_listing(prefix.generations)
    current = known_current(prefix)
    remove_dead_holds(prefix)
    complete = set(records.complete_numbers(prefix))
    for number in complete:
        with suppress(OSError):  # a kill came between its record and its mode
            if prefix.generation(number).lstat().st_mode & 0o222:
                change(prefix.generation(number), mode=0o555)
    for number in records.generation_numbers(prefix):
        folder = prefix.generation(number)
        # A publish that lives holds a row for its number, so what has none was left by a kill.
        if number in complete or number == current or is_staged(prefix, number):
            continue
        if not (folder / records.ABANDONED).exists():
            reporter.log(f"cleaning generation {number}, left by a publish that was killed")
            abandon(prefix, number, "its publish was killed")
