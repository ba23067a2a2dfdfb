"""The results of apply and report, as text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from envmgr.cli.render import out
from envmgr.wording import counted, size_text

if TYPE_CHECKING:
    from envmgr.commands.apply import AppliedEntry, ApplyResult
    from envmgr.commands.report import ReportedEntry, ReportResult

_MARKS = {"ok": "ok", "failed": "**failed**", "nothing to do": "nothing to do", "not reached": "not reached"}


def show_apply(result: ApplyResult) -> None:
    for step in result.steps:
        out(f"{step.name}: {step.status}{f' in {step.seconds:.1f} s' if step.status in ('ok', 'failed') else ''}")
        for line in step.said:
            out(f"  {line}")
        if step.hint:
            out(f"  hint: {step.hint}")
    for entry in result.entries:
        out(f"{entry.entry}: {_digests(entry)}")
        for line in entry.packages:
            out(f"  {line}")


def show_report(result: ReportResult) -> None:
    out(report_markdown(result).rstrip("\n"))


def apply_markdown(result: ApplyResult) -> str:
    """Return the report of an `apply`."""
    made = f"generation {result.candidate}" if result.candidate is not None else "no new generation"
    state = "failed" if result.code else "done"
    lines = [f"# apply: {state}, {made}", ""]
    lines += [f"- {_cell(root)} at commit `{name or 'none'}`" for root, name in result.commits.items()]
    lines += [f"- current: generation {result.current or 'none'} (was {result.before or 'none'})", ""]
    rows = [
        [
            step.name,
            _MARKS[step.status],
            f"{step.seconds:.1f} s",
            *["<br>".join(map(_cell, _said(step.said, step.hint)))],
        ]
        for step in result.steps
    ]
    lines += _table(["step", "end", "time", "what was seen"], rows)
    if result.entries:
        changed = [[e.entry, e.change, _digests(e), "<br>".join(map(_cell, e.packages))] for e in result.entries]
        lines += ["", *_table(["entry", "change", "install", "packages"], changed)]
    return "\n".join(lines) + "\n"


def report_markdown(result: ReportResult) -> str:
    """Return the comment for a merge request."""
    errors = [f for f in result.findings if f.severity == "error"]
    lines = [
        f"### envmgr: {counted(len(result.entries), 'entries')} would change, {result.checked} checked, {counted(len(errors), 'errors')}",
        "",
    ]
    if result.entries:
        header = ["entry", "change", "backend", "to build", "download", "installed", "licence"]
        lines += _table(header, [_row(entry) for entry in result.entries])
    for entry in result.entries:
        notes = [*([f"cannot be built: {entry.why}"] if entry.why else []), *entry.gpus, *entry.notes]
        lines += ["", *(f"- `{entry.entry}`: {_cell(note)}" for note in notes)] if notes else []
    if result.accepted:
        lines += ["", "What recipes accept, for the reviewer:", ""]
        accepted = [[a.entry, a.rule, _cell(a.change), _cell(a.reason)] for a in result.accepted]
        lines += _table(["entry", "rule", "what is done", "the recipe's reason"], accepted)
    if result.findings:
        lines += ["", "Findings of `envmgr catalog check`:", ""]
        lines += [f"- {f.severity}: {_cell(f.where)}: {_cell(f.found)}" for f in result.findings]
    if not result.nodes_known:
        lines += ["", "No audit has seen a node yet: nothing is known of GPUs and drivers."]
    return "\n".join(lines) + "\n"


def _row(entry: ReportedEntry) -> list[str]:
    sizes = [size_text(size) if size is not None else "not known" for size in (entry.download, entry.installed)]
    if entry.change == "removed" or entry.why:
        sizes = ["", ""]
    built = "<br>".join(_cell(path.removeprefix("store/")) for path in entry.missing)
    return [entry.entry, entry.change, entry.backend, built, *sizes, _cell(", ".join(entry.licences))]


def _digests(entry: AppliedEntry) -> str:
    short = [digest[:8] or "none" for digest in (entry.before, entry.digest)]
    return f"{short[0]} -> {short[1]}" if short[0] != short[1] else f"{short[0]} (module text changed)"


def _said(said: Iterable[str], hint: str) -> list[str]:
    return [*said, *([f"hint: {hint}"] if hint else [])]


def _table(header: list[str], rows: Iterable[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)]


def _cell(text: str) -> str:
    """Return a stranger's text so that it changes no table and no page, and calls nobody: as code, in one line."""
    plain = " ".join(text.split()).replace("`", "'").replace("|", "\\|")
    return f"`{plain}`" if plain else ""
