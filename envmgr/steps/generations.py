"""`envmgr remove`, `history`, `rollback` and `sign`: generations after they were published."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from envmgr.builds.prepare import can_write
from envmgr.errors import EnvmgrError, InputError
from envmgr.publish.candidates import last_withdrawn
from envmgr.publish.flip_checks import FlipFault, look_at_current_flip
from envmgr.publish.flips import flips, known_current, last_current, once_current
from envmgr.publish.generations import require_no_candidate, rollback, sign
from envmgr.publish.plan import Change, check_dependencies, marked
from envmgr.publish.records import candidate_numbers, complete_numbers, read_records, read_specs
from envmgr.report import Lines, Result, Table
from envmgr.steps import Context, logged, published_record, require_published
from envmgr.steps.publish import publish_change
from envmgr.steps.status import keep_status
from envmgr.system.files import shipped


@dataclass(frozen=True, slots=True)
class RemoveResult(Result):
    schema: ClassVar[str] = "envmgr.remove/1"
    entries: tuple[str, ...]
    generation: int | None
    parent: int | None
    dry_run: bool
    log: str | None

    def lines(self) -> Lines:
        if self.dry_run:
            yield f"would remove {', '.join(self.entries)} from the next generation"
        elif self.generation is None:
            yield f"{', '.join(self.entries)} was removed meanwhile: generation {self.parent} is current"
        else:
            yield f"removed {', '.join(self.entries)}: generation {self.generation} is current (was {self.parent})"
            yield "its recipe stays: `envmgr build` or a bare `envmgr publish` publishes it again"
            yield f"installs and older generations stay; `envmgr rollback {self.parent}` brings it back"


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One generation, published or a `candidate`, which may be `withdrawn`; `changes` are `+ entry`, `- entry` and
    `~ entry` against its parent.

    `damaged` is why its record cannot be read, and empty where it can; the rest is then not known.
    """

    number: int
    current: bool
    created: str
    user: str
    host: str
    reason: str
    entries: int
    changes: tuple[str, ...]
    damaged: str = ""
    candidate: bool = False
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class HistoryResult(Result):
    """The history. `flips` are all publishes and rollbacks, oldest first."""

    schema: ClassVar[str] = "envmgr.history/1"
    generations: tuple[HistoryRow, ...]
    flips: tuple[dict[str, object], ...]

    def lines(self) -> Lines:
        rows = [
            [
                "*" if g.current else "w" if g.withdrawn else "c" if g.candidate else " ",
                str(g.number),
                g.created or "?",
                f"{g.user}@{g.host}" if not g.damaged else "?",
                str(g.entries) if not g.damaged else "?",
                g.damaged or " ".join(g.changes) or "re-rendered",
            ]
            for g in self.generations
        ]
        yield Table(rows, ["", "gen", "created", "by", "entries", "changes"])
        if not rows:
            yield "nothing is published, as this host sees the prefix"
        for flip in self.flips:
            if str(flip["reason"]).startswith("rollback"):
                yield f"rolled back {flip['from']} -> {flip['to']}  {flip['time']}  {flip['user']}@{flip['host']}"


@dataclass(frozen=True, slots=True)
class RollbackResult(Result):
    schema: ClassVar[str] = "envmgr.rollback/1"
    before: int
    after: int
    dry_run: bool

    def lines(self) -> Lines:
        word = "would be" if self.dry_run else "is"
        yield f"generation {self.after} {word} current (was {self.before}); new shells get it, running ones keep theirs"


def remove_entries(ctx: Context, names: Sequence[str], *, dry_run: bool = False) -> RemoveResult:
    """Publish a generation without the named entries; installs and older generations stay."""
    current = published_record(ctx)
    require_published(names, current)
    specs = read_specs(ctx.prefix, current.number)
    check_dependencies({k: tuple(v["spec"]["depends"]) for k, v in specs.items() if k not in names})
    if dry_run:
        return RemoveResult(tuple(names), None, current.number, True, None)
    can_write(ctx.site)
    lmod = ctx.find_lmod()

    with logged(ctx, "remove") as (inner, log):
        change = Change({}, tuple(names), f"remove {' '.join(names)}")
        # Nothing is tested, unless templates or policies changed as well.
        done = publish_change(inner, change, lmod, [])
    return RemoveResult(tuple(names), done.number, done.parent, False, str(log))


def read_history(ctx: Context) -> HistoryResult:
    """Return all generations, also with a damaged `current`: it shows the numbers that a rollback can take."""
    current = known_current(ctx.prefix)
    rows = []
    waiting, last = candidate_numbers(ctx.prefix) - once_current(ctx.prefix), 0
    with suppress(EnvmgrError):  # the list is what helps then
        last = last_withdrawn(ctx.prefix)
    records, damaged = read_records(ctx.prefix)
    for number in complete_numbers(ctx.prefix):
        marks = number in waiting, number in waiting and number <= last
        if number in damaged:
            why = damaged[number].message
            rows.append(HistoryRow(number, number == current, "", "", "", "", 0, (), why, *marks))
        if (record := records.get(number)) is None:
            continue
        before = records[record.parent].entries if record.parent in records else {}
        other = (e for e in {*before, *record.entries} if before.get(e) != record.entries.get(e))
        changes = marked(other, before, record.entries)
        count, own = len(record.entries), (record.created, record.user, record.host, record.reason)
        rows.append(HistoryRow(number, number == current, *own, count, changes, "", *marks))
    return HistoryResult(tuple(rows), tuple(flips(ctx.prefix)))


def roll_back(ctx: Context, number: int | None, *, dry_run: bool = False) -> RollbackResult:
    """Make `number` current, or the generation that the current one was made from."""
    if number is None:
        current = published_record(ctx)
        number = current.parent
        if number is None:
            raise EnvmgrError(
                "no-generation", f"generation {current.number} is the first: there is nothing to go back to"
            )
    before = last_current(ctx.prefix)
    if before is None:
        published_record(ctx)  # raises: nothing was published
    require_no_candidate(ctx.prefix, number)
    if dry_run:
        return RollbackResult(before or number, number, True)
    can_write(ctx.site)
    before, after = rollback(number, ctx.prefix, ctx.runner, ctx.reporter, signer=ctx.signer)
    keep_status(ctx)
    return RollbackResult(before, after, False)


@dataclass(frozen=True, slots=True)
class SignResult(Result):
    """The result of `sign`. `sequence` is the new flip's, None in a dry run; `faults` are those of the flip before."""

    schema: ClassVar[str] = "envmgr.sign/1"
    generation: int
    sequence: int | None
    faults: tuple[FlipFault, ...]
    dry_run: bool

    def lines(self) -> Lines:
        for fault in self.faults:
            yield f"{'is' if self.dry_run else 'was'} {fault.state}: {fault.path}: {fault.found}"
        if self.sequence is None and any(fault.state == "replayed" for fault in self.faults):
            yield f"would not sign generation {self.generation}: `envmgr verify` says how to fix it"
        elif self.sequence is None:
            yield f"would sign generation {self.generation}"
        else:
            yield f"signed generation {self.generation}: flip {self.sequence}; nodes take it at their next check"


def sign_current(ctx: Context, *, accept_gap: bool = False, dry_run: bool = False) -> SignResult:
    """Sign the current generation again. With `accept_gap`, flips that are lost for good are no finding any more.

    Raises InputError `signs-nothing`; EnvmgrError `nothing-published`, `generation-changed`, `not-signed`.
    """
    signing, signer = ctx.site.signing, ctx.signer
    if signing is None or signer is None:
        raise InputError(
            "signs-nothing",
            "this site does not sign what it publishes",
            context=f"no `signing` in {ctx.site.source or 'the embedded site'}",
            hint=f"{shipped('docs') / 'signing.md'} tells how a site begins",
        )
    number = published_record(ctx).number
    faults: tuple[FlipFault, ...] = ()
    if (found := look_at_current_flip(ctx.prefix, signing, ctx.runner)) is not None:
        # Another publish may have come since `number` was read: the look says what is current by now.
        number, faults = found[0], found[1].faults
    if dry_run:
        return SignResult(number, None, faults, True)
    can_write(ctx.site)
    generation, sequence = sign(ctx.prefix, ctx.runner, ctx.reporter, signer=signer, accept_gap=accept_gap)
    return SignResult(generation, sequence, faults, False)
