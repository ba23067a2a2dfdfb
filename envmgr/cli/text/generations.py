"""Generations as text: what changed, what went, and what stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envmgr.cli.render import out, table
from envmgr.cli.text.builds import show_changes
from envmgr.wording import counted, size_text

if TYPE_CHECKING:
    from envmgr.commands.gc import GcResult
    from envmgr.commands.generations import DiffResult, HistoryResult, RemoveResult, RollbackResult, SignResult


def show_remove(result: RemoveResult) -> None:
    if result.dry_run:
        out(f"would remove {', '.join(result.entries)} from the next generation")
    elif result.generation is None:
        out(f"{', '.join(result.entries)} was removed meanwhile: generation {result.parent} is current")
    else:
        out(f"removed {', '.join(result.entries)}: generation {result.generation} is current (was {result.parent})")
        out("its recipe stays: `envmgr build` or a bare `envmgr publish` publishes it again")
        out(f"installs and older generations stay; `envmgr rollback {result.parent}` brings it back")


def show_history(result: HistoryResult) -> None:
    rows = [
        [
            "*" if g.current else " ",
            str(g.number),
            g.created or "?",
            f"{g.user}@{g.host}" if not g.damaged else "?",
            str(g.entries) if not g.damaged else "?",
            g.damaged or " ".join(g.changes) or "re-rendered",
        ]
        for g in result.generations
    ]
    table(rows, header=["", "gen", "created", "by", "entries", "changes"])
    if not rows:
        out("nothing was published yet")
    for flip in result.flips:
        if str(flip["reason"]).startswith("rollback"):
            out(f"rolled back {flip['from']} -> {flip['to']}  {flip['time']}  {flip['user']}@{flip['host']}")


def show_rollback(result: RollbackResult) -> None:
    word = "would be" if result.dry_run else "is"
    out(f"generation {result.after} {word} current (was {result.before}); new shells get it, running ones keep theirs")


def show_sign(result: SignResult) -> None:
    for fault in result.faults:
        out(f"{'is' if result.dry_run else 'was'} {fault.state}: {fault.path}: {fault.found}")
    if result.sequence is None and any(fault.state == "replayed" for fault in result.faults):
        out(f"would not sign generation {result.generation}: `envmgr verify` says how to fix it")
    elif result.sequence is None:
        out(f"would sign generation {result.generation}")
    else:
        out(f"signed generation {result.generation}: flip {result.sequence}; nodes take it at their next check")


def show_diff(result: DiffResult) -> None:
    if not result.entries:
        out(f"generations {result.a} and {result.b} have the same entries")
    for entry in result.entries:
        note = " (same install, module text changed)" if entry.change == "module" else ""
        out(f"{entry.entry}: {entry.change}{note}")
        if entry.change == "changed":
            show_changes(entry.packages, indent="  ")
        elif entry.packages:
            out(f"  {counted(len(entry.packages), 'packages')}")


_SHOWN = 20


def show_gc(result: GcResult) -> None:
    verb = "would remove" if result.dry_run else "removed"
    for number in result.generations:
        out(f"{verb} generation {number}")
    for path in (*result.installs, *result.leftovers):
        out(f"{verb} {path}")
    for each in result.kept[:_SHOWN]:
        out(f"kept {each.path}: {each.reason}")
    if (more := len(result.kept) - _SHOWN + result.kept_more) > 0:
        out(f"kept {more} more; `--format json` tells {'more of them' if result.kept_more else 'them'}")
    for reason in result.kept_all:
        out(f"kept all that may be in use: {reason}")
    if not (result.generations or result.installs or result.leftovers):
        out("nothing to remove")
        return
    generations, installs = counted(len(result.generations), "generations"), counted(len(result.installs), "installs")
    out(f"{verb} {generations}, {installs}, {size_text(result.size)}")
