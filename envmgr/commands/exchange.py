"""`envmgr import` and, for one entry, `envmgr export`: files of other tools become recipes, and locks such files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envmgr.backends import get_backend
from envmgr.catalog.entries import RECIPE_NAME, SOFTWARE_NAME
from envmgr.catalog.lock_rules import UNANSWERED
from envmgr.catalog.names import Entry, fault_in_part, parse_entry
from envmgr.catalog.recipe import Recipe, load_recipe
from envmgr.commands import Context
from envmgr.commands.entry_faults import entry_faults, judge_all, reading_entry, why_failed
from envmgr.errors import EnvmgrError, InputError, Interrupted
from envmgr.exchange import Contents, Left, read_file, writers
from envmgr.exchange.recipes import Draft, NotExact, drafts_of
from envmgr.publish.records import read_current
from envmgr.report import Result
from envmgr.system.files import atomic_write, explain_os_error
from envmgr.system.scratch import clear_dead_scratch, copy_folder, scratch_folder
from envmgr.system.yamlfile import dump_yaml
from envmgr.wording import one_line, shortened

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
    """The entries that a file of another tool became. `left` is what of it is not carried over."""

    schema: ClassVar[str] = "envmgr.import/1"
    path: str
    format: str
    entries: tuple[ImportedEntry, ...]
    left: tuple[Left, ...]
    dry_run: bool


def import_file(
    ctx: Context,
    path: Path,
    *,
    name: str | None = None,
    entry: str | None = None,
    python: str | None = None,
    dry_run: bool = False,
) -> ImportResult:
    """Make a recipe of another tool's file, in the first catalog that can be written, with its exact packages where it
    has them. `name` is the format's, `python` the entry below wheels.

    Raises:
        InputError: `format-unclear`, `import-invalid`, `import-empty`, `platform-missing`, `entry-missing`,
            `entry-exists`, and more. Nothing is written then.
        EnvmgrError: `no-catalog`; the catalog cannot be written.
    """
    found, contents = read_file(path, ctx.runner, name)
    if not (contents.specs or contents.rows or contents.easyconfigs):
        lines = [f"{row.line}: {row.text}: {row.why}" for row in contents.left[:20]]
        raise InputError("import-empty", f"{one_line(path)} asks for nothing that a recipe can ask for", context=lines)
    root, drafts = ctx.catalog.own_root(), list[tuple[Draft, str, list[str]]]()
    if contents.easyconfigs:
        if entry is not None and len(contents.easyconfigs) > 1:
            count = len(contents.easyconfigs)
            raise InputError(
                "entry-syntax", f"{one_line(path)} makes {count} entries, and --as names one", hint="leave it out"
            )
        for each in contents.easyconfigs:
            made = parse_entry(entry) if entry is not None else _entry(each.name, each.version, path)
            drafts.append((Draft(made, "easybuild", each.input, {}, {}, 1), "", []))
    else:
        made = parse_entry(entry) if entry is not None else _entry(contents.name, contents.version or _VERSION, path)
        _require_free(ctx, root, made)
        drafts.append(_best(ctx, contents, made, python))
    for draft, _, _ in drafts:
        _require_free(ctx, root, draft.entry)
    description = contents.description or f"Imported from {path.name}"
    rows = tuple(_write(ctx, root, *each, path, description, dry_run=dry_run) for each in drafts)
    return ImportResult(str(path), found, rows, contents.left, dry_run)


def _entry(name: str, version: str, path: Path) -> Entry:
    if not name or fault_in_part(name) or fault_in_part(version):
        said = f"`{one_line(name)}/{one_line(version)}` cannot be one" if name else "the file has no name for it"
        raise InputError(
            "entry-missing", f"{one_line(path)} becomes an entry: {said}", hint="name it by `--as NAME/VERSION`"
        )
    return Entry(name, version)


def _require_free(ctx: Context, root: Path, entry: Entry) -> None:
    place, other = root / entry.name / entry.version, ctx.catalog.look(entry)
    if os.path.lexists(place) or other is not None:
        there = place if other is None else other.folder
        raise InputError(
            "entry-exists", f"{there} exists", hint="name another entry by `--as NAME/VERSION`, or remove it first"
        )


def _best(ctx: Context, contents: Contents, entry: Entry, python: str | None) -> tuple[Draft, str, list[str]]:
    """Return the draft with exact packages, if its lock answers it, or else the other one and what the first lacks; and
    the faults of what is returned.
    """
    exact, other = drafts_of(contents, entry, ctx.site, python)
    if exact is None:
        return other(), "", []
    try:
        draft = exact()
        with scratch_folder("import") as scratch:
            folder = scratch / entry.name / entry.version
            folder.mkdir(parents=True)
            for name, text in draft.files("a file").items():
                (folder / name).write_text(text, encoding="utf-8")
            fault, needs = _faults(ctx, draft, folder)
            if not fault:
                return draft, "", needs
    except NotExact as error:
        fault = str(error)
    return other(), one_line(fault), []


def _faults(ctx: Context, draft: Draft, folder: Path) -> tuple[str, list[str]]:
    """Return why the draft's lock does not answer its recipe, empty if it does; and what a person has to decide first."""
    try:
        with reading_entry(draft.entry):
            recipe = load_recipe(folder / RECIPE_NAME)
            lock = get_backend(draft.backend).load_lock(draft.entry, recipe, folder, ctx.site)
            faults = entry_faults(draft.entry, judge_all(draft.entry, recipe, lock.facts(), lock.below))
    except Interrupted:
        raise
    except EnvmgrError as error:
        return why_failed(error).replace(f"{folder}/", ""), []
    own = [fault.text for fault in faults if fault.rule == UNANSWERED]
    return "; ".join(own[:3]), [f"{fault.rule}: {fault.text}: {fault.mend}" for fault in faults]


def _write(
    ctx: Context, root: Path, draft: Draft, lacks: str, needs: list[str], path: Path, description: str, *, dry_run: bool
) -> ImportedEntry:
    target, texts = root / draft.entry.name / draft.entry.version, draft.files(path.name)
    if not dry_run:
        with explain_os_error(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            clear_dead_scratch(target.parent)
            if not (software := target.parent / SOFTWARE_NAME).exists():
                atomic_write(software, dump_yaml({"description": description}, width=120))
            # A folder beside the target, so that one rename makes the whole entry appear.
            with copy_folder(target.parent) as staging:
                (staging / target.name).mkdir()
                for name, text in texts.items():
                    atomic_write(staging / target.name / name, text)
                (staging / target.name).rename(target)
    faults = [*get_backend(draft.backend).faults(_recipe(draft), ctx.site), *needs]
    return ImportedEntry(
        str(draft.entry), str(target), draft.backend, (*texts,), draft.count, bool(draft.lock), lacks, tuple(faults)
    )


def _recipe(draft: Draft) -> Recipe:
    return Recipe(backend=draft.backend, input=dict(draft.input))


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


def export_lock(
    ctx: Context, names: list[str], *, to: str, output: Path | None = None, dry_run: bool = False
) -> ExportedLock:
    """Write the lock of one entry for the tool `to`.

    Raises:
        InputError: `unknown-entry`, `entry-missing`, `export-impossible`; EnvmgrError: as its lock; the file cannot be
            written.
    """
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
    format_ = writers()[to]
    text, left = format_.write(exact_of(lock, ctx.site, ctx.runner, places=format_.PLACES))
    for line in shortened([f"not in it: {row.text}: {row.why}" for row in left]):
        ctx.reporter.say(line)
    if output is not None and not dry_run:
        atomic_write(output, text)
    return ExportedLock(
        to,
        str(found.entry),
        lock.sha256,
        row is not None and row.lock == lock.sha256,
        len(lock.packages),
        tuple(left),
        output,
        dry_run,
        text,
    )
