"""`envmgr promote`: make a candidate current, or put its changes on what became current meanwhile."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated, ClassVar

from envmgr.builds.prepare import can_write
from envmgr.errors import EnvmgrError, InputError
from envmgr.publish.candidates import newest, read_candidate, require_offered, require_promotable, require_same
from envmgr.publish.generations import promote as flip_to
from envmgr.publish.generations import withdraw_candidate
from envmgr.publish.plan import Change, NewModule, changed_entries, marked, with_dependents
from envmgr.publish.records import GenerationRecord, current_number, published_spec, read_record, read_specs
from envmgr.publish.staging import seen_by_tests
from envmgr.report import Lines, Result
from envmgr.smoke import SmokeOutcome, outcome_lines
from envmgr.steps import Context, logged, published_record
from envmgr.steps.opening import to_write
from envmgr.steps.publish import publish_change
from envmgr.steps.status import keep_status
from envmgr.steps.verb_run import run_verb
from envmgr.store.node_tests import read_node_tests, save_node_tests
from envmgr.verbs import DryRun, argument, needs, option


@dataclass(frozen=True, slots=True)
class PromoteResult(Result):
    """The result of `promote`. `candidate` became current, or would; with `rebased`, that is a new candidate with its
    changes instead.

    `before` was current. `changes` are `+ entry`, `- entry` and `~ entry` against that. `unseen` are changed entries of
    which no test on nodes is known to have passed. `staged` says what nodes have of its images, where the site stages
    before a publish. `taken_back` are entries of a rebase that another publish changed since the candidate was made:
    the candidate's take their place. With `withdrawn`, the candidate and those before it are offered to nobody any
    more, or would be.
    """

    schema: ClassVar[str] = "envmgr.promote/1"
    candidate: int
    before: int | None
    changes: tuple[str, ...]
    unseen: tuple[str, ...]
    dry_run: bool
    rebased: int | None = None
    staged: tuple[str, ...] = ()
    tests: tuple[SmokeOutcome, ...] = ()
    log: str | None = None
    rebase: bool = False
    taken_back: tuple[str, ...] = ()
    withdrawn: bool = False

    def lines(self) -> Lines:
        yield from outcome_lines(self.tests)
        was = self.before or "none"
        if self.withdrawn:
            yield f"candidate {self.candidate} {'would be' if self.dry_run else 'is'} withdrawn, with those before it"
        elif self.rebased is not None:
            yield f"generation {self.rebased} is a candidate: the changes of {self.candidate} on {was}"
        elif self.rebase:
            yield f"would make a candidate: the changes of {self.candidate} on {was}"
        elif self.dry_run:
            yield f"generation {self.candidate} would be current (is {was})"
        else:
            yield f"generation {self.candidate} is current (was {was}); new shells get it"
        for name in self.taken_back:
            yield f"warning: {name} was changed since by another publish; the candidate takes that back"
        for change in (*self.changes, *self.staged):
            yield f"  {change}"
        if self.unseen:
            number = self.rebased or self.candidate
            yield f"not tested on nodes: {', '.join(self.unseen)} (`envmgr test --generation {number} --nodes SET`)"


@dataclass(frozen=True, slots=True)
class _Made:
    """The record of a candidate, and of what it was made from. `changed`: the entries that differ."""

    record: GenerationRecord
    parent: GenerationRecord | None
    changed: frozenset[str]

    @property
    def changes(self) -> tuple[str, ...]:
        return marked(self.changed, self.parent.entries if self.parent else (), self.record.entries)

    @property
    def there(self) -> set[str]:
        """The changed entries that it has."""
        return {name for name in self.changed if name in self.record.entries}


@needs("mount")
def promote(
    ctx: Context,
    generation: Annotated[int | None, argument("Number of the candidate; by default the newest.", "[NUMBER]")] = None,
    rebase: Annotated[
        bool, option("Make a candidate with the same changes on what is current now; test the rest.")
    ] = False,
    withdraw: Annotated[bool, option("Offer it, and candidates before it, to nobody any more; flip nothing.")] = False,
    dry_run: DryRun = False,
) -> PromoteResult:
    """Make a candidate current, without a new build.

    It refuses if a test of the candidate failed on a node, or if another generation became current since it was made.
    """
    if rebase and withdraw:
        raise InputError("promote-what", "--rebase makes a candidate, and --withdraw takes one away: give one of them")
    number = _choose(ctx, generation)
    # Nodes are asked before root becomes the build user, who has no key for them. Staging may take long: then another
    # candidate may be the newest.
    staged = () if dry_run or rebase or withdraw else _stage(ctx, number)
    if not dry_run:
        ctx = to_write(ctx)
    if withdraw:
        return _withdraw(ctx, number, dry_run=dry_run)
    return _promote(ctx, number, rebase=rebase, dry_run=dry_run, staged=staged)


def _choose(ctx: Context, number: int | None) -> int:
    """Return the number, by default that of the newest candidate. Raise EnvmgrError `no-candidate`."""
    chosen = newest(ctx.prefix) if number is None else number
    if chosen is None:
        hint = "`envmgr build --candidate ENTRY` makes one of an entry"
        raise EnvmgrError("no-candidate", "there is no candidate", hint=hint)
    return chosen


def _stage(ctx: Context, number: int) -> tuple[str, ...]:
    """Have nodes stage the candidate's images, where the site stages before a publish; return what they have, or why
    they do not.

    It ends within `staging.before_publish` seconds, and stops no flip: what is not staged is read from the share.
    Raises EnvmgrError as `_promote`, before anything is staged.
    """
    if not ctx.site.policies.stage_before_publish:
        return ()
    looked = _promote(ctx, number, dry_run=True)
    names = ctx.site.staging.chosen(read_record(ctx.prefix, looked.candidate).entries)
    if not names:
        return ()
    of = ("--generation", str(looked.candidate), *names)
    end = time.monotonic() + ctx.site.staging.before_publish
    try:
        done = run_verb(ctx, "stage", *of, seconds=max(1.0, end - time.monotonic()))
    except EnvmgrError as error:
        ctx.runner.raise_if_cancelled()
        return (f"not all is staged: {error.message}",)
    if "images" not in done.data:
        return (f"not all is staged: {'; '.join(done.error[0])}",)
    said = [f"{image['state']}: {image['path']} on {image['nodes']}" for image in done.data["images"]]
    said += [f"not staged on {fault['nodes']}: {fault['why']}" for fault in done.data["faults"]]
    return tuple(said)


def _promote(
    ctx: Context, number: int, *, rebase: bool = False, dry_run: bool = False, staged: tuple[str, ...] = ()
) -> PromoteResult:
    """Make a candidate current by one flip. With `rebase`, make a candidate with its changes on
    what is current, and test what differs. `staged` is what `_stage` returned.

    Raises:
        EnvmgrError: `not-a-candidate`, `candidate-outdated`, `generation-changed`, `install-missing`,
            `test-not-green`; with `rebase` what a publish raises.
        InputError: `candidate-fits` for a rebase of a candidate that is on what is current.
    """
    found = read_candidate(ctx.prefix, number)
    made = _made(ctx, number, found.record.parent)
    current = current_number(ctx.prefix)
    if rebase:
        if found.record.parent == current:
            message = f"candidate {number} was made from generation {current}, which is current"
            raise InputError("candidate-fits", message, hint=f"`envmgr promote {number}` makes it current")
        return _rebase(ctx, made, dry_run=dry_run)
    unseen = _unseen(ctx, made)
    if dry_run:
        require_promotable(ctx.prefix, found, current, ctx.signer)
        _require_green(ctx, number)
        return PromoteResult(number, current, made.changes, unseen, True)
    can_write(ctx.site)
    done = flip_to(
        number, ctx.prefix, ctx.runner, ctx.reporter, signer=ctx.signer, check=lambda: _require_green(ctx, number)
    )
    keep_status(ctx)
    return PromoteResult(number, done.before, made.changes, unseen, False, staged=staged)


def _withdraw(ctx: Context, number: int, *, dry_run: bool = False) -> PromoteResult:
    """Offer a candidate, and those before it, to nobody any more. Its generation stays until `gc`.

    Raises EnvmgrError `not-a-candidate`, `no-generation`, `candidate-withdrawn`.
    """
    found = read_candidate(ctx.prefix, number)
    require_offered(ctx.prefix, number)
    made = _made(ctx, number, found.record.parent)
    if not dry_run:
        can_write(ctx.site)
        withdraw_candidate(number, ctx.prefix, ctx.runner, ctx.reporter)
    return PromoteResult(number, current_number(ctx.prefix), made.changes, (), dry_run, withdrawn=True)


def _made(ctx: Context, number: int, parent: int | None) -> _Made:
    record = read_record(ctx.prefix, number)
    before = None if parent is None else read_record(ctx.prefix, parent)
    return _Made(record, before, frozenset(changed_entries(record.entries, record.manifests, before)))


def _unseen(ctx: Context, made: _Made) -> tuple[str, ...]:
    return tuple(sorted(made.there - read_node_tests(ctx.prefix, made.record.number).seen("passed")))


def _require_green(ctx: Context, number: int) -> None:
    """Raise EnvmgrError `test-not-green` if the last test of an entry on some node failed."""
    red = [each for each in read_node_tests(ctx.prefix, number).tests if each.status == "failed"]
    if red:
        from envmgr.nodes.sets import fold

        context = [f"{each.entry} `{each.test}` on {fold(each.nodes)}" for each in red[:10]]
        again = f"`envmgr test {red[0].entry} --generation {number} --nodes {fold(red[0].nodes)}` tests again"
        hint = f"{again}; if the entry is wrong, correct its recipe and make another candidate"
        raise EnvmgrError("test-not-green", f"tests of candidate {number} failed", context=context, hint=hint)


def _rebase(ctx: Context, made: _Made, *, dry_run: bool) -> PromoteResult:
    number, parent = made.record.number, made.record.parent
    current = published_record(ctx)
    require_same(ctx.prefix, read_candidate(ctx.prefix, number), ctx.signer)
    unseen = tuple(sorted(made.there))
    old, new = made.parent.entries if made.parent else {}, made.record.entries
    taken_back = tuple(n for n in sorted(made.changed) if current.entries.get(n) not in (old.get(n), new.get(n)))
    if dry_run:
        return PromoteResult(number, current.number, made.changes, unseen, True, rebase=True, taken_back=taken_back)
    can_write(ctx.site)
    specs = {name: published_spec(raw) for name, raw in read_specs(ctx.prefix, number).items()}
    add = {name: NewModule(specs[name].spec, specs[name].facts, new[name].lock) for name in made.there}
    # What the candidate took away may be gone meanwhile.
    gone = tuple(name for name in made.changed if name not in specs and name in current.entries)
    change = Change(add, gone, made.record.reason, candidate=True)
    before = seen_by_tests(
        with_dependents(set(made.there), specs), specs, made.record.entries, made.record.manifests, made.record.render
    )
    outcomes: list[SmokeOutcome] = []
    with logged(ctx, "promote") as (inner, log):
        done = publish_change(inner, change, ctx.find_lmod(), outcomes, tested=frozenset(before.values()))
        if done.number is None:
            message = f"generation {done.parent} has what candidate {number} brings"
            context = f"candidate {number} was made from generation {parent or 'none'}"
            hint = "there is nothing to promote; `envmgr gc` removes the candidate when it is old"
            raise EnvmgrError("no-change", message, context=context, hint=hint)
        _keep_results(inner, number, done.number, before)
    rebased = _made(ctx, done.number, done.parent)
    return PromoteResult(
        number,
        done.parent,
        rebased.changes,
        _unseen(ctx, rebased),
        False,
        done.number,
        tests=tuple(outcomes),
        log=str(log),
        rebase=True,
        taken_back=taken_back,
    )


def _keep_results(ctx: Context, number: int, rebased: int, before: dict[str, str]) -> None:
    """Keep results of tests on nodes for the entries that are the same in the rebased candidate."""
    record = read_record(ctx.prefix, rebased)
    specs = {name: published_spec(raw) for name, raw in read_specs(ctx.prefix, rebased).items()}
    names = [name for name in before if name in record.entries]
    same = seen_by_tests(names, specs, record.entries, record.manifests, record.render)
    kept = [t for t in read_node_tests(ctx.prefix, number).tests if same.get(t.entry) == before.get(t.entry, "")]
    if kept and (why := save_node_tests(ctx.site, rebased, kept, check=ctx.runner.raise_if_cancelled)):
        ctx.reporter.say(f"warning: results of tests on nodes are not kept: {why}")
