"""`envmgr report`: what a change of the catalog would do, by `check` and what was published; nothing is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from envmgr.catalog.entries import CatalogEntry
from envmgr.catalog.site import read_target
from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.spec import ModuleSpec
from envmgr.page.status import NOT_SEEN, Group, group_verdicts, groups_of
from envmgr.publish.records import PublishedEntry, current_number, published_spec, read_specs
from envmgr.report import Finding, Lines, Result
from envmgr.steps import Context
from envmgr.steps.catalog_check import Accepted, check_catalog
from envmgr.steps.markdown import md_cell, md_table
from envmgr.steps.resolved import EntryBuild, current_entries, load_entry, unacknowledged
from envmgr.store.node_facts import read_node_facts
from envmgr.system.files import atomic_write
from envmgr.verbs import DryRun, OutputOption, SomeEntries, needs, option
from envmgr.wording import counted, one_line, size_text


@dataclass(frozen=True, slots=True)
class ReportedEntry:
    """An entry that differs from what is published. `change` is new, changed, module (the same install with another
    module or other tests) or removed; `why` says why its lock cannot
    be read, empty if it can. `missing` are the installs to make; sizes are bytes, None if unknown. `gpus` are verdicts,
    each with its nodes.
    """

    entry: str
    change: str
    backend: str = ""
    licences: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    download: int | None = None
    installed: int | None = None
    gpus: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class ReportResult(Result):
    """The result of `report`. `nodes_known` says whether an audit has seen nodes: without one there are no verdicts."""

    schema: ClassVar[str] = "envmgr.report/1"
    catalog: str
    checked: int
    entries: tuple[ReportedEntry, ...]
    findings: tuple[Finding, ...]
    accepted: tuple[Accepted, ...]
    nodes_known: bool

    @property
    def exit_code(self) -> int:
        return 1 if any(f.severity == "error" for f in self.findings) else 0

    def lines(self) -> Lines:
        yield report_markdown(self).rstrip("\n")


@needs("prefix")
def report(
    ctx: Context,
    entries: SomeEntries = None,
    pull_request: Annotated[bool, option("Write the comment for a merge request; nothing is run.")] = False,
    catalog: Annotated[
        Path | None, option("Look at this folder of recipes instead of the site's own.", "FOLDER")
    ] = None,
    output: OutputOption = None,
    dry_run: DryRun = False,
) -> ReportResult:
    """Show what a change of the catalog would do.

    It reads recipes and locks, and runs nothing of them. The exit code is 1 if `check` finds an error.
    """
    if not pull_request:
        raise InputError("report-what", "say what the report is for", hint="`envmgr report --pull-request`")
    if catalog is not None:
        # Whose branch it is could show folders of this host. What comes before an absolute path's last name is the host's.
        for part in (catalog, *(() if catalog.is_absolute() else catalog.parents)):
            if part.is_symlink():
                message = f"{part} is a link to {one_line(part.readlink())}, where the folder of recipes should be"
                hint = "put the folder itself there, or name the one that it leads to"
                raise InputError("catalog-is-link", message, hint=hint)
        if not catalog.is_dir():
            message = f"there is no folder {catalog.absolute()}"
            raise InputError("catalog-missing", message, hint="name a folder of recipes")
        catalog = catalog.resolve()
        ctx = replace(ctx, site=ctx.site.model_copy(update={"catalogs": (catalog, ctx.site.shipped_catalog)}))
    own = [found for found in ctx.catalog.entries() if not found.shipped]
    if entries:
        asked = {ctx.catalog.parse(name) for name in entries}
        own = [ctx.catalog.find(entry) for entry in sorted(asked, key=str)]
    checked = check_catalog(ctx, [str(found.entry) for found in own]) if own else None
    findings = [] if entries else [Finding("names", "error", "catalog", text) for text in ctx.catalog.name_faults()]
    findings += checked.findings if checked else ()
    published, specs, groups = current_entries(ctx.prefix), _specs(ctx), _groups(ctx)
    rows = [row for found in own if (row := _row(ctx, found, published, specs, groups)) is not None]
    if not entries:
        there = {str(found.entry) for found in ctx.catalog.entries()}
        rows += [ReportedEntry(name, "removed") for name in sorted(published) if name not in there]
    roots, accepted = ctx.site.catalogs[:-1], checked.accepted if checked else ()
    beside = tuple(_beside(each, roots) for each in findings)
    where = str(catalog or ", ".join(map(str, roots)))
    result = ReportResult(where, len(own), tuple(rows), beside, accepted, groups is not None)
    if output is not None and dry_run:
        ctx.reporter.say(f"would write {output}")
    elif output is not None:
        atomic_write(output, report_markdown(result))
    return result


def _beside(finding: Finding, roots: Sequence[Path]) -> Finding:
    """Return the finding with paths relative to the catalogs: where a branch was unpacked says nothing to its author."""
    text = finding.found
    for root in roots:
        text = text.replace(f"{root}/", "")
    return replace(finding, found=text)


def _groups(ctx: Context) -> Mapping[str, Group] | None:
    try:
        fleet = read_node_facts(ctx.prefix)
    except EnvmgrError as error:
        ctx.reporter.say(f"warning: {error.message}: there are no verdicts on nodes")
        return None
    return groups_of(fleet) if fleet is not None and fleet.seen else None


def _specs(ctx: Context) -> Mapping[str, Any]:
    number = current_number(ctx.prefix)
    return {} if number is None else read_specs(ctx.prefix, number)


def _row(
    ctx: Context,
    found: CatalogEntry,
    published: Mapping[str, PublishedEntry],
    specs: Mapping[str, Any],
    groups: Mapping[str, Group] | None,
) -> ReportedEntry | None:
    """Return the row of an entry; None for one that is published as it is."""
    name = str(found.entry)
    before = published.get(name)
    change, notes = "new" if before is None else "changed", list[str]()
    try:
        item = load_entry(ctx, found, read_target(ctx.site.cpu_level))
        missing = tuple(each.install.relative for each in item.missing)
    except EnvmgrError as error:
        return ReportedEntry(name, change, why=error.message.replace(f"{found.root}/", ""))
    if before is not None and before.digest == item.install.digest:
        felt = _module_changes(item, specs.get(name))
        if not felt:
            return None
        change, notes = "module", [f"its module changes: {', '.join(felt)}"]
    notes += [f"the site has not acknowledged its licence: {word}" for word in unacknowledged(ctx, item)]
    licences = tuple(dict.fromkeys((item.software.licence, *item.lock.licences)))
    sizes, gpus = (item.lock.download, item.lock.installed), tuple(_verdicts(item, groups or {}))
    notes += item.lock.notes
    return ReportedEntry(name, change, item.recipe.backend, licences, missing, *sizes, gpus, tuple(notes))


def _module_changes(item: EntryBuild, raw: Mapping[str, Any] | None) -> list[str]:
    """Return the fields of the published module that would be others: nothing is built, but its tests are run."""
    if raw is None:
        return []
    was = published_spec(raw)
    new = item.module(was.facts).spec
    return [field for field in ModuleSpec.model_fields if getattr(new, field) != getattr(was.spec, field)]


def _verdicts(item: EntryBuild, groups: Mapping[str, Group]) -> Iterator[str]:
    """Yield what the gate says of the nodes of each group; of an entry without a GPU only what speaks against it."""
    needs = item.needs(None)
    for row in group_verdicts(needs, groups):
        if needs.gpu is not None or row.verdict not in ("fits", NOT_SEEN):
            yield f"{': '.join(filter(None, (row.group, row.verdict, row.reason)))} ({row.nodes})"


def report_markdown(result: ReportResult) -> str:
    """Return the comment for a merge request."""
    errors = [f for f in result.findings if f.severity == "error"]
    changed, wrong = counted(len(result.entries), "entries"), counted(len(errors), "errors")
    lines = [f"### envmgr: {changed} would change, {result.checked} checked, {wrong}", ""]
    if result.entries:
        header = ["entry", "change", "backend", "to build", "download", "installed", "licence"]
        lines += md_table(header, [_cells(entry) for entry in result.entries])
    for entry in result.entries:
        notes = [*([f"cannot be built: {entry.why}"] if entry.why else []), *entry.gpus, *entry.notes]
        lines += ["", *(f"- `{entry.entry}`: {md_cell(note)}" for note in notes)] if notes else []
    if result.accepted:
        lines += ["", "What recipes accept, for the reviewer:", ""]
        accepted = [[a.entry, a.rule, md_cell(a.change), md_cell(a.reason)] for a in result.accepted]
        lines += md_table(["entry", "rule", "what is done", "the recipe's reason"], accepted)
    if result.findings:
        lines += ["", "Findings of `envmgr check`:", ""]
        lines += [f"- {f.severity}: {md_cell(f.where)}: {md_cell(f.found)}" for f in result.findings]
    if not result.nodes_known:
        lines += ["", "No audit has seen a node yet: nothing is known of GPUs and drivers."]
    return "\n".join(lines) + "\n"


def _cells(entry: ReportedEntry) -> list[str]:
    sizes = [size_text(size) if size is not None else "not known" for size in (entry.download, entry.installed)]
    if entry.change == "removed" or entry.why:
        sizes = ["", ""]
    built = "<br>".join(md_cell(path.removeprefix("store/")) for path in entry.missing)
    return [entry.entry, entry.change, entry.backend, built, *sizes, md_cell(", ".join(entry.licences))]
