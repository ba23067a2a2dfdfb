"""`envmgr copy`: take a shipped recipe into an own catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from envmgr.backends import get_backend
from envmgr.catalog.recipe import shared_files
from envmgr.errors import InputError
from envmgr.report import Lines, Result
from envmgr.steps import Context
from envmgr.system.files import atomic_write, explain_os_error
from envmgr.system.scratch import clear_dead_scratch, copy_folder
from envmgr.system.untrusted_files import ANYWHERE, LOCK, SOFTWARE, copy_files, read_bytes
from envmgr.verbs import DryRun, argument, needs


@dataclass(frozen=True, slots=True)
class CopyResult(Result):
    schema: ClassVar[str] = "envmgr.copy/1"
    entry: str
    target: str
    files: tuple[str, ...]
    dry_run: bool

    def lines(self) -> Lines:
        done = "would be copied" if self.dry_run else "copied"
        yield f"{self.entry}: {done} to {self.target} ({', '.join(self.files)})"


@needs("prefix")
def copy(
    ctx: Context, entry: Annotated[str, argument("A shipped entry, as name/version.", "ENTRY")], dry_run: DryRun = False
) -> CopyResult:
    """Copy a shipped recipe into your own catalog."""
    catalog = ctx.catalog
    found = catalog.find(catalog.parse(entry))
    root = catalog.own_root()
    target = root / found.entry.name / found.entry.version
    if not dry_run:
        clear_dead_scratch(target.parent)
    if target.exists():
        raise InputError("entry-exists", f"{target} exists", hint="edit it there, or remove it first")
    files = sorted(p.name for p in found.folder.iterdir() if p.is_file())
    recipe = found.recipe()
    named = get_backend(recipe.backend).beside(recipe, ctx.site)
    shared = {file: root / found.entry.name / file.name for file in shared_files(recipe, found.folder)}
    beside = {s: place for s, place in {**named, **shared}.items() if not place.exists()}  # a copy may be edited
    if not dry_run:
        with explain_os_error(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            software = target.parent / found.software_path.name
            if not software.exists():
                atomic_write(software, read_bytes(found.software_path, SOFTWARE, tree=found.root))
            for source, place in beside.items():  # before the entry is there: then nothing is lacking
                atomic_write(place, read_bytes(source, LOCK, tree=ANYWHERE if source in named else found.root))
            # A folder beside the target, so that one rename makes the whole entry appear.
            with copy_folder(target.parent) as staging:
                copy_files(found.folder, staging / target.name, LOCK, tree=found.root)
                (staging / target.name).rename(target)
    return CopyResult(str(found.entry), str(target), (*files, *(str(p) for p in beside.values())), dry_run)
