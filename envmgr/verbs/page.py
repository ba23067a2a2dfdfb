"""`envmgr page`: the page of a generation, made at its publish, and copied."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

from envmgr.errors import EnvmgrError, InputError
from envmgr.page import CATALOG, FEED, INDEX, STATUS, WWW
from envmgr.publish.extras import GenerationContents
from envmgr.publish.records import GenerationRecord, published_spec, read_specs
from envmgr.report import Lines, Result
from envmgr.steps import Context, published_record
from envmgr.steps.page_files import page_files
from envmgr.steps.status import status_file
from envmgr.system.files import exchange, explain_os_error, read_regular, sync_file_system, write_new
from envmgr.system.safe_paths import change
from envmgr.system.scratch import copy_folder
from envmgr.system.untrusted_files import GENERATION, read_bytes
from envmgr.verbs import DryRun, needs, option
from envmgr.wording import and_more, counted, size_text


@dataclass(frozen=True, slots=True)
class PageResult(Result):
    """The page of a generation. `folder` is where it lies, None for one that had none and was made now. `size` is in
    bytes, without `status.json`; `output` is where it was copied.
    """

    schema: ClassVar[str] = "envmgr.page/1"
    generation: int
    folder: Path | None
    files: int
    size: int
    status: bool
    output: Path | None
    dry_run: bool

    def lines(self) -> Lines:
        where = self.folder or "made now, because its publish wrote none"
        yield f"page of generation {self.generation}: {where}"
        yield f"{counted(self.files, 'files')}, {size_text(self.size)}; {'with' if self.status else 'without'} status.json"
        if self.output is not None:
            yield f"{'would copy it' if self.dry_run else 'copied'} to {self.output}"


@dataclass(frozen=True, slots=True)
class _Page:
    """A generation's page: the names of its files, and what reads each."""

    number: int
    folder: Path | None
    files: Mapping[str, Callable[[], bytes]]


@needs("prefix")
def page(
    ctx: Context,
    generation: Annotated[int | None, option("Page of this generation; by default the current one.", "N")] = None,
    output: Annotated[
        Path | None, option("Copy the page to this folder, in one step, with status.json.", "DIR", "--output", "-o")
    ] = None,
    dry_run: DryRun = False,
) -> PageResult:
    """Show or copy the page of the published software.

    Every publish writes this page into its generation.
    """
    found = _open(ctx, published_record(ctx, generation))
    status = _status(ctx)
    files = {name: read() for name, read in found.files.items()}
    if output is not None:
        output = Path(os.path.abspath(output))  # noqa: PTH100 - a link is refused, not followed
        _require_page(ctx, output)
        if not dry_run:
            _copy(files | ({STATUS: status} if status is not None else {}), output)
    size = sum(map(len, files.values()))
    return PageResult(found.number, found.folder, len(files), size, status is not None, output, dry_run)


def _open(ctx: Context, record: GenerationRecord) -> _Page:
    """Return the page; one that the publish could not write is made now."""
    folder = ctx.prefix.generation(record.number) / WWW
    names = [path.removeprefix(f"{WWW}/") for path in record.files if path.startswith(f"{WWW}/")]
    if names:
        return _Page(record.number, folder, {name: partial(_read, folder / name) for name in names})
    specs = {name: published_spec(raw).spec for name, raw in read_specs(ctx.prefix, record.number).items()}
    contents = GenerationContents(record.number, record.parent, record.created, record.reason, record.entries, specs)
    return _Page(record.number, None, {name: partial(bytes, data) for name, data in page_files(ctx, contents)})


def _read(path: Path) -> bytes:
    """Return a file of a page. Raise EnvmgrError `generation-damaged`."""
    try:
        return read_regular(path)
    except OSError as error:
        hint = "`envmgr verify` tells what changed; the next publish writes another page"
        raise EnvmgrError("generation-damaged", f"{path} cannot be read", context=str(error), hint=hint) from None


def _status(ctx: Context) -> bytes | None:
    with suppress(OSError):
        return read_regular(status_file(ctx))
    return None


def _require_page(ctx: Context, output: Path) -> None:
    """Raise InputError `page-output` for a folder with anything else than a page, which would be lost, and for one in
    the prefix, where installs and generations never change.
    """
    with explain_os_error(output):
        if output.resolve().is_relative_to(ctx.prefix.root.resolve()):
            said = f"it lies in the prefix, {ctx.prefix.root}"
        elif output.is_symlink() or (output.exists() and not output.is_dir()):
            said = "it is no folder"
        elif foreign := sorted(_foreign(output)) if output.exists() else []:
            said = f"it has {and_more(foreign, 3)}"
        else:
            return
    context = (said, "a copy of the page replaces the whole folder")
    hint = "name a folder outside of the prefix that does not exist yet"
    raise InputError("page-output", f"{output} is something else than a page", context=context, hint=hint)


def _foreign(folder: Path) -> Iterator[str]:
    """Yield the files of a folder that are not those of the page in it; what it has at the top, if there is no page."""
    own = {INDEX, CATALOG, FEED, STATUS}
    try:
        data = json.loads(read_bytes(folder / CATALOG, GENERATION))
        own |= {str(entry["sbom"]) for entry in data["entries"]}
        own |= {str(lock) for part in data["parts"].values() for lock in part["locks"]}
    except (OSError, InputError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        yield from (each.name for each in folder.iterdir())
        return
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if name not in own and (path.is_symlink() or not path.is_dir()):
            yield name


def _copy(files: Mapping[str, bytes], output: Path) -> None:
    """Write the files beside `output`, and take its place in one step."""
    with explain_os_error(output), copy_folder(output.parent) as made:
        top = made / output.name
        for name, content in files.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            write_new(top / name, content, mode=0o644, sync=False)
        for folder in (top, *(each for each in top.rglob("*") if each.is_dir())):
            change(folder, mode=0o755)  # whatever the umask: a web server reads it
        sync_file_system(top)
        exchange(top, output)
