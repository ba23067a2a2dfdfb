"""`envmgr import`: files of other tools become recipes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

from envmgr.backends import get_backend
from envmgr.catalog.entries import RECIPE_NAME
from envmgr.catalog.lock_checks import UNANSWERED
from envmgr.catalog.names import Entry, fault_in_part, parse_entry
from envmgr.catalog.recipe import Recipe, load_recipe
from envmgr.errors import EnvmgrError, InputError, Interrupted
from envmgr.exchange import Dropped, Parsed, read_file
from envmgr.exchange.recipes import Draft, NotExact, drafts_of
from envmgr.report import Lines, Result, Table
from envmgr.steps import Context
from envmgr.steps.draft import require_free, write_draft
from envmgr.steps.lock_checks import entry_faults, judge_all, reading_entry, require_new_name, why_failed
from envmgr.system.scratch import clear_dead_scratch, scratch_folder
from envmgr.verbs import DryRun, argument, needs, option
from envmgr.wording import counted, one_line

_VERSION = "1.0"  # of an entry from a file that has a name and no version


@dataclass(frozen=True, slots=True)
class ImportedEntry:
    """An entry that was made. `packages` are those of its file; `exact` tells whether its lock has just these.

    `lacks` is why a file with exact packages gave no lock; empty for a file that has none. `faults` are what its recipe
    needs first.
    """

    entry: str
    folder: str
    backend: str
    files: tuple[str, ...]
    packages: int
    exact: bool
    lacks: str
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImportResult(Result):
    """The entries that a file of another tool became. `left` is what of it is not carried over; the last `differences`
    of these are installs that the file names and that are not there.
    """

    schema: ClassVar[str] = "envmgr.import/1"
    path: str
    format: str
    entries: tuple[ImportedEntry, ...]
    left: tuple[Dropped, ...]
    differences: int
    dry_run: bool

    @property
    def exit_code(self) -> int:
        return 1 if self.differences and not self.entries else 0

    def lines(self) -> Lines:
        done = "would write" if self.dry_run else "wrote"
        for each in self.entries:
            yield f"{done} {each.folder}: {', '.join(each.files)}"
            if each.lacks:
                yield f"  without a lock: {each.lacks}"
            for fault in each.faults:
                yield f"  first: {fault}"
            if each.exact:
                yield f"  exactly {counted(each.packages, 'packages')} of {self.path}; `envmgr build {each.entry}`"
            else:
                yield f"  `envmgr lock {each.entry}` finds its packages"
        if not self.entries:
            yield "nothing new: no entry was made"
        if self.left:
            yield "\nnot carried over:"
            yield Table([[f"  {row.line or ''}", row.text, row.why] for row in self.left])


@needs("prefix")
def import_(
    ctx: Context,
    path: Annotated[Path, argument("File of another tool, such as pixi.lock, or a folder of Spack.", "PATH")],
    name: Annotated[
        str | None, option("Format of the file; by default by its name and text.", "FORMAT", "--from")
    ] = None,
    entry: Annotated[
        str | None, option("The new entry, as name/version; by default as in the file.", "ENTRY", "--as")
    ] = None,
    python: Annotated[
        str | None, option("Python below wheels, such as python/3.11; by default the newest that fits.", "ENTRY")
    ] = None,
    tree: Annotated[Path | None, option("Folder in which Spack installed what its spack.lock names.", "FOLDER")] = None,
    dry_run: DryRun = False,
) -> ImportResult:
    """Make a recipe of another tool's file.

    If the file is a lock, the entry gets exactly its packages. What cannot be carried over is listed line by line.
    """
    found, contents = read_file(path, ctx.runner, name, tree=tree)
    if not (contents.specs or contents.rows or contents.entries or contents.differences):
        lines = [f"{row.line}: {row.text}: {row.why}" for row in contents.left[:20]]
        raise InputError("import-empty", f"{one_line(path)} asks for nothing that a recipe can ask for", context=lines)
    root, drafts = ctx.catalog.own_root(), list[Draft]()
    for each in contents.entries:
        made = _entry(each.name, each.version, path, entry if len(contents.entries) == 1 else None)
        drafts.append(Draft(made, each.backend, each.input, {}, 1, needs=each.needs, comment=each.comment))
    if not (drafts or contents.differences):
        made = _entry(contents.name, contents.version or _VERSION, path, entry)
        drafts.append(_best(ctx, contents, made, python))
    elif entry is not None and len(drafts) > 1:
        message = f"{one_line(path)} makes {len(drafts)} entries, and --as names one"
        raise InputError("entry-syntax", message, hint="leave it out")
    way = "take it out of the file" if len(drafts) > 1 else "name another entry by `--as NAME/VERSION`"
    left, kept = list(contents.left), list[Draft]()
    for draft in drafts:
        if not dry_run:
            clear_dead_scratch(root / draft.entry.name)  # also where a killed run has made the entry
        try:
            require_free(ctx, root, draft.entry, way)
            require_new_name(draft.entry, ctx.catalog, ctx.prefix, [each.entry for each in drafts])
            kept.append(draft)
        except InputError as error:
            if not contents.goes_on:
                raise
            left.append(Dropped(0, str(draft.entry), error.message))
    left += contents.differences
    description = one_line(contents.description or f"Imported from {path.name}")
    made_by = f"`envmgr import` from {one_line(path.name)}"
    rows = [
        _imported(ctx, draft, write_draft(ctx, root, draft, made_by, description, way, dry_run=dry_run))
        for draft in kept
    ]
    return ImportResult(str(path), found, tuple(rows), tuple(left), len(contents.differences), dry_run)


def _entry(name: str, version: str, path: Path, given: str | None) -> Entry:
    """Return the entry that is `given`, or else the file's own. Raise InputError `entry-missing`, `entry-syntax`."""
    if given is not None:
        return parse_entry(given)
    if fault := fault_in_part(name) or fault_in_part(version) if name else "the file has no name for it":
        message = f"{one_line(path)} needs the name of an entry: {fault}"
        raise InputError("entry-missing", message, hint="name it by `--as NAME/VERSION`")
    return Entry(name, version)


def _best(ctx: Context, contents: Parsed, entry: Entry, python: str | None) -> Draft:
    """Return the draft with exact packages if its lock answers its recipe, or else the other one, and why."""
    exact, other = drafts_of(contents, entry, ctx.site, python)
    if exact is None:
        return other()
    try:
        draft = exact()
        with scratch_folder("import") as scratch:
            folder = scratch / entry.name / entry.version
            folder.mkdir(parents=True)
            for name, text in draft.files("nobody").items():
                (folder / name).write_text(text, encoding="utf-8")
            return replace(draft, needs=tuple(_decisions(ctx, draft, folder)))
    except NotExact as error:
        return replace(other(), lacks=one_line(error))


def _decisions(ctx: Context, draft: Draft, folder: Path) -> Iterator[str]:
    """Yield what a person has to decide before the lock in `folder` is built. Raise NotExact if it does not answer its
    recipe.
    """
    try:
        with reading_entry(draft.entry):
            recipe = load_recipe(folder / RECIPE_NAME)
            lock = get_backend(draft.backend).load_lock(draft.entry, recipe, folder, ctx.site)
            faults = entry_faults(draft.entry, judge_all(draft.entry, recipe, lock.facts, lock.below))
    except Interrupted:
        raise
    except EnvmgrError as error:
        raise NotExact(why_failed(error).replace(f"{folder}/", "")) from None
    for fault in faults:
        if fault.rule == UNANSWERED:
            raise NotExact(fault.text)
        yield f"{fault.rule}: {fault.text}: {fault.mend}"


def _imported(ctx: Context, draft: Draft, written: tuple[Path, tuple[str, ...]]) -> ImportedEntry:
    target, files = written
    recipe = Recipe(backend=draft.backend, input=dict(draft.input))
    faults = (*get_backend(draft.backend).faults(recipe, ctx.site), *draft.needs)
    exact = bool(draft.lock)
    return ImportedEntry(str(draft.entry), str(target), draft.backend, files, draft.count, exact, draft.lacks, faults)
