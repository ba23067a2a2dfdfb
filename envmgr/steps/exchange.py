"""`envmgr import` and, for one entry, `envmgr export`: files of other tools become recipes, and locks such files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from envmgr.backends import get_backend
from envmgr.catalog.entries import RECIPE_NAME, SOFTWARE_NAME
from envmgr.catalog.lock_rules import UNANSWERED
from envmgr.catalog.names import Entry, fault_in_part, parse_entry
from envmgr.catalog.recipe import Recipe, load_recipe
from envmgr.errors import EnvmgrError, InputError, Interrupted
from envmgr.exchange import Contents, Left, read_file, writers
from envmgr.exchange.recipes import Draft, NotExact, drafts_of
from envmgr.publish.records import read_current
from envmgr.report import Lines, Result, Table, Verbatim
from envmgr.steps import Context
from envmgr.steps.entry_faults import entry_faults, judge_all, reading_entry, require_new_name, why_failed
from envmgr.system.files import atomic_write, explain_os_error
from envmgr.system.scratch import clear_dead_scratch, copy_folder, scratch_folder
from envmgr.system.yamlfile import dump_yaml
from envmgr.wording import counted, one_line, shortened

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
    left: tuple[Left, ...]
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


def import_file(
    ctx: Context,
    path: Path,
    *,
    name: str | None = None,
    entry: str | None = None,
    python: str | None = None,
    tree: Path | None = None,
    dry_run: bool = False,
) -> ImportResult:
    """Make a recipe of another tool's file, in the first catalog that can be written, with its exact packages where it
    has them. `name` is the format's, `python` the entry below wheels, `tree` the folder that the file's installs lie in.

    Raises:
        InputError: `format-unclear`, `import-invalid`, `import-empty`, `platform-missing`, `entry-missing`,
            `entry-exists`, `entry-clash`, and more. Nothing is written then.
        EnvmgrError: `no-catalog`; the catalog cannot be written.
    """
    found, contents = read_file(path, ctx.runner, name, tree=tree)
    if not (contents.specs or contents.rows or contents.entries or contents.differences):
        lines = [f"{row.line}: {row.text}: {row.why}" for row in contents.left[:20]]
        raise InputError("import-empty", f"{one_line(path)} asks for nothing that a recipe can ask for", context=lines)
    root, drafts = ctx.catalog.own_root(), list[Draft]()
    for each in contents.entries:
        made = _entry(each.name, each.version, path, entry if len(contents.entries) == 1 else None)
        drafts.append(Draft(made, each.backend, each.input, {}, {}, 1, needs=each.needs, comment=each.comment))
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
            left.append(Left(0, str(draft.entry), error.message))
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


def require_free(ctx: Context, root: Path, entry: Entry, way: str) -> None:
    """Raise InputError `entry-exists`, with the `way` out, if the entry is in a catalog, or its place is taken."""
    place, other = root / entry.name / entry.version, ctx.catalog.look(entry)
    if os.path.lexists(place) or other is not None:
        hint = f"{way}, or remove it first"
        raise InputError("entry-exists", f"{place if other is None else other.folder} exists", hint=hint)


def _best(ctx: Context, contents: Contents, entry: Entry, python: str | None) -> Draft:
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
            faults = entry_faults(draft.entry, judge_all(draft.entry, recipe, lock.facts(), lock.below))
    except Interrupted:
        raise
    except EnvmgrError as error:
        raise NotExact(why_failed(error).replace(f"{folder}/", "")) from None
    for fault in faults:
        if fault.rule == UNANSWERED:
            raise NotExact(fault.text)
        yield f"{fault.rule}: {fault.text}: {fault.mend}"


def write_draft(
    ctx: Context, root: Path, draft: Draft, made: str, description: str, way: str, *, dry_run: bool
) -> tuple[Path, tuple[str, ...]]:
    """Write an entry into the catalog `root`, and `software.yaml` where there is none; return its folder, and the names
    of its files. `made` is as for `Draft.files`, `way` as for `require_free`. A failure leaves nothing.
    """
    target, texts = root / draft.entry.name / draft.entry.version, draft.files(made)
    if not dry_run:
        with explain_os_error(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                # A folder beside the target, so that one rename makes the whole entry appear.
                with copy_folder(target.parent) as staging:
                    (staging / target.name).mkdir()
                    for name, text in texts.items():
                        atomic_write(staging / target.name / name, text)
                    require_free(ctx, root, draft.entry, way)  # another run may have made it meanwhile
                    if not (software := target.parent / SOFTWARE_NAME).exists():
                        atomic_write(software, dump_yaml({"description": description}, width=120))
                    (staging / target.name).rename(target)
            finally:
                with suppress(OSError):  # it has the entry
                    target.parent.rmdir()
    return target, (*texts,)


def _imported(ctx: Context, draft: Draft, written: tuple[Path, tuple[str, ...]]) -> ImportedEntry:
    target, files = written
    recipe = Recipe(backend=draft.backend, input=dict(draft.input))
    faults = (*get_backend(draft.backend).faults(recipe, ctx.site), *draft.needs)
    exact = bool(draft.lock)
    return ImportedEntry(str(draft.entry), str(target), draft.backend, files, draft.count, exact, draft.lacks, faults)


@dataclass(frozen=True, slots=True)
class ExportedLock(Result):
    """An entry's lock as a file of another tool. `published` tells whether what is published was built from this lock.

    `text` is the whole file; `left` is what of the lock it does not hold; `output` is where it is, or would be.
    """

    schema: ClassVar[str] = "envmgr.export-lock/1"
    to: str
    entry: str
    lock: str
    published: bool
    packages: int
    left: tuple[Left, ...]
    output: Path | None
    dry_run: bool
    text: str

    def lines(self) -> Lines:
        if self.output is None:
            yield Verbatim(self.text)
        else:
            done = "would write" if self.dry_run else "wrote"
            yield f"{done} {self.output}: {counted(self.packages, 'packages')} of {self.entry} for {self.to}"


def export_lock(
    ctx: Context,
    names: list[str],
    *,
    to: str,
    of_cluster: bool = False,
    output: Path | None = None,
    dry_run: bool = False,
) -> ExportedLock:
    """Write the lock of one entry for the tool `to`.

    Raises:
        InputError: `unknown-entry`, `entry-missing`, `export-impossible`; EnvmgrError: as its lock; the file cannot be
            written.
    """
    if of_cluster:
        message = f"--system and --nodes are of a cluster, and a file for {to} is of one entry"
        raise InputError("export-impossible", message, hint="leave them out")
    if len(names) != 1:
        raise InputError("entry-missing", f"a file for {to} is of one entry", hint="name it as name/version")
    from envmgr.exchange.exact import exact_of

    found = ctx.catalog.find(ctx.catalog.parse(names[0]))
    recipe = found.recipe()
    with reading_entry(found.entry):
        lock = get_backend(recipe.backend).load_lock(found.entry, recipe, found.folder, ctx.site)
    current = read_current(ctx.prefix)
    row = None if current is None else current.entries.get(str(found.entry))
    if row is not None and row.lock != lock.sha256:
        ctx.reporter.say(f"{found.entry}: what is published was built from another lock than the one in {found.folder}")
    exact = exact_of(lock, ctx.site, ctx.runner)
    text, left = writers()[to].write(exact)
    dropped = {row.text for row in left}
    packages = [*(exact.conda.packages if exact.conda else ()), *exact.wheels]
    for line in shortened([f"not in it: {row.text}: {row.why}" for row in left]):
        ctx.reporter.say(line)
    if output is not None and not dry_run:
        atomic_write(output, text)
    return ExportedLock(
        to,
        str(found.entry),
        lock.sha256,
        row is not None and row.lock == lock.sha256,
        sum(f"{each.name} {each.version}" not in dropped for each in packages),
        tuple(left),
        output,
        dry_run,
        text,
    )
