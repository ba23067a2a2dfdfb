"""The catalog, its entries, the site and generations as text."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from envmgr.cli.render import out, table
from envmgr.cli.text.builds import show_changes
from envmgr.wording import counted, shortened, size_text

if TYPE_CHECKING:
    from envmgr.commands import catalog, exchange, gc, generations, init, new, site
    from envmgr.commands.diff import DiffResult
    from envmgr.commands.list import GpuSummary, ListResult, ShowResult
    from envmgr.commands.page import PageResult


def show_list(result: ListResult) -> None:
    rows = []
    for name, group in groupby(result.entries, key=lambda e: e.entry.partition("/")[0]):
        entries = list(group)
        rows.append([name, "", entries[0].description])
        for index, entry in enumerate(entries):
            branch = "└─" if index == len(entries) - 1 else "├─"
            rows.append([f"{branch} {entry.entry.partition('/')[2]}", entry.state, ", ".join(entry.notes)])
    table(rows)
    if not rows:
        out("no catalog has an entry")
    if result.generation is not None:
        out(f"\ncurrent generation: {result.generation}")


def show_one_entry(result: ShowResult) -> None:
    recipe, software = result.recipe, result.software
    requires = {k: v for k, v in recipe["requires"].items() if v}
    rows = [
        ("entry", result.entry),
        ("state", ", ".join([result.state, *result.notes])),
        ("description", software["description"].strip()),
        ("homepage", software["homepage"]),
        ("licence", software["licence"]),
        ("recipe", result.folder),
        ("backend", recipe["backend"]),
        *((key, _words(value)) for key, value in recipe["input"].items()),
        ("depends", ", ".join(recipe["depends"])),
        ("families", _families(recipe)),
        (
            "requires",
            ", ".join(f"{k} >= {v}" if isinstance(v, str) else f"{k} {', '.join(v)}" for k, v in requires.items()),
        ),
        *_gpu_rows(result.gpu),
        ("tests", ", ".join(t["name"] for t in recipe["tests"])),
        ("digest", result.digest or ""),
        ("install", result.install or ""),
        ("module", result.module or ""),
        ("packages", str(len(result.packages)) if result.packages else "not locked"),
    ]
    table([r for r in rows if r[1]])
    if result.packages:
        out()
        table([f"  {name}", *spec.split(" ", 1)] for name, spec in result.packages.items())


def _gpu_rows(gpu: GpuSummary | None) -> list[tuple[str, str]]:
    """Return the driver's part, the code's part, and what the last audits saw."""
    if gpu is None:
        return []
    driver = [f"CUDA {gpu.cuda}" if gpu.cuda else "CUDA not known" if gpu.cuda is not None else "no CUDA in the lock"]
    driver += [f"runs from driver {gpu.runs_from} on"] if gpu.runs_from else ["which driver it needs is not known"]
    if gpu.compiles_from:
        driver.append(f"compiles at run time (Triton, NVRTC) from branch {gpu.compiles_from} on")
    elif gpu.cuda:
        driver.append("which driver compiles for it at run time is not known")
    driver += [f"forward compatibility by cuda-compat {gpu.compat} (data centre GPUs)"] if gpu.compat else []
    where = "measured in its install" if gpu.measured else "by its recipe; measured when it is built"
    code = f"{', '.join(gpu.codes)} ({where})" if gpu.codes else "not known" if gpu.cuda is not None else ""
    seen = [
        ("gpu on nodes", f"{each.nodes}: {each.verdict}{f': {each.reason}' if each.reason else ''}")
        for each in gpu.nodes
    ]
    return [("gpu driver", "; ".join(driver)), ("gpu code", code), *seen]


def show_new(result: new.NewResult) -> None:
    stands = f", on {result.python}" if result.python else ""
    out(f"{'would write' if result.dry_run else 'wrote'} {result.folder}: {', '.join(result.files)}{stands}")
    for command in result.commands:
        out(command)


def show_copy(result: catalog.CopyResult) -> None:
    done = "would be copied" if result.dry_run else "copied"
    out(f"{result.entry}: {done} to {result.target} ({', '.join(result.files)})")


def show_check(result: catalog.CheckResult) -> None:
    for finding in result.findings:
        out(f"{finding.severity}[{finding.check}]: {finding.where}: {finding.found}")
        if finding.hint:
            out(f"  hint: {finding.hint}")
    for each in result.accepted:
        out(f"accepted: {each.entry}: {each.rule}: {each.change} ({each.reason})")
    errors = sum(f.severity == "error" for f in result.findings)
    warnings = sum(f.severity == "warning" for f in result.findings)
    checked, found = counted(result.checked, "recipes"), f"{counted(errors, 'errors')}, {counted(warnings, 'warnings')}"
    out(f"{checked} checked: {found}")


def show_init(result: init.InitResult) -> None:
    out(f"{'would write' if result.dry_run else 'wrote'} {result.site}")
    out(f"catalog: {result.catalog}")
    out(f"prefix:  {result.prefix}")
    if not result.dry_run:
        out("next: `envmgr site check`, then `envmgr new NAME/VERSION PACKAGE`, or `envmgr copy ENTRY`")


def show_site_check(result: site.SiteCheckResult) -> None:
    out(f"site: {result.source or 'embedded (no site.yaml found): this machine only'}")
    table([f.status, f.field, f.text + (f"  ({f.hint})" if f.hint else "")] for f in result.facts)


def _families(recipe: dict[str, Any]) -> str:
    """Return the families that the recipe names; by default they follow from what is installed."""
    named = recipe["families"]
    return "none: it stacks" if named == [] else ", ".join(named or [])


def _words(value: Any) -> str:
    """Return a recipe's value in one line: lists and mappings with commas."""
    items = [f"{k} {v}" for k, v in value.items()] if isinstance(value, dict) else value
    return ", ".join(map(str, items)) if isinstance(items, list) else str(items)


def show_remove(result: generations.RemoveResult) -> None:
    if result.dry_run:
        out(f"would remove {', '.join(result.entries)} from the next generation")
    elif result.generation is None:
        out(f"{', '.join(result.entries)} was removed meanwhile: generation {result.parent} is current")
    else:
        out(f"removed {', '.join(result.entries)}: generation {result.generation} is current (was {result.parent})")
        out("its recipe stays: `envmgr build` or a bare `envmgr publish` publishes it again")
        out(f"installs and older generations stay; `envmgr rollback {result.parent}` brings it back")


def show_page_result(result: PageResult) -> None:
    where = result.folder or "made now, because its publish wrote none"
    out(f"page of generation {result.generation}: {where}")
    out(
        f"{counted(result.files, 'files')}, {size_text(result.size)}; {'with' if result.status else 'without'} status.json"
    )
    if result.output is not None:
        out(f"{'would copy it' if result.dry_run else 'copied'} to {result.output}")


def show_history(result: generations.HistoryResult) -> None:
    rows = [
        [
            "*" if g.current else "w" if g.withdrawn else "c" if g.candidate else " ",
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
        out("nothing is published, as this host sees the prefix")
    for flip in result.flips:
        if str(flip["reason"]).startswith("rollback"):
            out(f"rolled back {flip['from']} -> {flip['to']}  {flip['time']}  {flip['user']}@{flip['host']}")


def show_rollback(result: generations.RollbackResult) -> None:
    word = "would be" if result.dry_run else "is"
    out(f"generation {result.after} {word} current (was {result.before}); new shells get it, running ones keep theirs")


def show_sign(result: generations.SignResult) -> None:
    for fault in result.faults:
        out(f"{'is' if result.dry_run else 'was'} {fault.state}: {fault.path}: {fault.found}")
    if result.sequence is None and any(fault.state == "replayed" for fault in result.faults):
        out(f"would not sign generation {result.generation}: `envmgr verify` says how to fix it")
    elif result.sequence is None:
        out(f"would sign generation {result.generation}")
    else:
        out(f"signed generation {result.generation}: flip {result.sequence}; nodes take it at their next check")


def show_diff(result: DiffResult) -> None:
    for load in result.loaded:
        out(f"the job loaded {load.entry}, generation {load.generation}, digest {load.digest}")
    for said in result.unknown:
        out(f"note: {said}")
    if not result.entries:
        same = f"generations {result.a} and {result.b} have the same entries"
        out(same if result.a is not None else f"no known difference to generation {result.b}")
    for entry in result.entries:
        note = " (same install, module text changed)" if entry.change == "module" else ""
        if entry.change == "default":
            note = "".join(f" {row.old} -> {row.new}" for row in entry.packages)
        out(f"{entry.entry}: {entry.change}{note}")
        if entry.change == "changed":
            show_changes(entry.packages)
        elif entry.packages and entry.change != "default":
            out(f"  {counted(len(entry.packages), 'packages')}")


_SHOWN = 20


def show_gc(result: gc.GcResult) -> None:
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
    for line in shortened(result.users):
        out(line)
    if not (result.generations or result.installs or result.leftovers):
        out("nothing to remove")
        return
    generations, installs = counted(len(result.generations), "generations"), counted(len(result.installs), "installs")
    out(f"{verb} {generations}, {installs}, {size_text(result.size)}")


def show_import(result: exchange.ImportResult) -> None:
    done = "would write" if result.dry_run else "wrote"
    for each in result.entries:
        out(f"{done} {each.folder}: {', '.join(each.files)}")
        if each.lacks:
            out(f"  without a lock: {each.lacks}")
        for fault in each.faults:
            out(f"  first: {fault}")
        if each.exact:
            out(f"  exactly {counted(each.packages, 'packages')} of {result.path}; `envmgr build {each.entry}`")
        else:
            out(f"  `envmgr lock {each.entry}` finds its packages")
    if not result.entries:
        out("nothing new: no entry was made")
    if result.left:
        out("\nnot carried over:")
        table([[f"  {row.line or ''}", row.text, row.why] for row in result.left])
