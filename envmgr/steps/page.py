"""`envmgr page`: the page of a generation, made at its publish, and copied."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from envmgr.errors import EnvmgrError, InputError
from envmgr.page import CATALOG, FEED, INDEX, STATUS, WWW
from envmgr.page.entries import make_catalog
from envmgr.page.render import render_page
from envmgr.publish.extras import Contents
from envmgr.publish.records import GenerationRecord, published_spec, read_record, read_specs
from envmgr.report import Lines, Result
from envmgr.steps import Context, published_record
from envmgr.steps.job import example_job
from envmgr.steps.sbom import entry_sboms
from envmgr.steps.status import status_file
from envmgr.system.files import exchange, explain_os_error, read_regular, sync_file_system, write_new
from envmgr.system.safe_paths import change
from envmgr.system.scratch import copy_folder
from envmgr.system.untrusted_files import GENERATION, read_bytes
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


def page_files(ctx: Context, contents: Contents) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a generation's page: the path below it, and the content."""
    sboms = {name: f"sbom/{entry.path.removeprefix('store/')}.cdx.json" for name, entry in contents.entries.items()}
    made = _sboms(ctx, contents, sboms)
    named = {entry: file for entry, file in sboms.items() if file in made}
    catalog, locks = make_catalog(ctx.prefix, ctx.site.name, contents, partial(example_job, ctx.site), named)
    yield from render_page(catalog)
    yield from locks.items()
    yield from made.items()


def _sboms(ctx: Context, contents: Contents, files: Mapping[str, str]) -> dict[str, bytes]:
    """Return the SBOMs of the entries: path below the page -> content. That of an install is taken from the page of the
    generation before, if it was there: it is the same.
    """
    found: dict[str, bytes] = {}
    if contents.parent is not None:
        before = ctx.prefix.generation(contents.parent) / WWW
        for file in files.values():
            with suppress(OSError):
                found[file] = read_regular(before / file)
    new = [name for name, file in files.items() if file not in found]
    for name, text in entry_sboms(ctx, contents.entries, contents.created, new):
        found[files[name]] = text.encode()
    return found


@dataclass(frozen=True, slots=True)
class _Page:
    """A generation's page: the names of its files, and what reads each."""

    number: int
    folder: Path | None
    files: Mapping[str, Callable[[], bytes]]


def show_page(
    ctx: Context, *, generation: int | None = None, output: Path | None = None, dry_run: bool = False
) -> PageResult:
    """Copy the page of `generation` (None: the current one) to the folder `output`; without one, only say where
    it is.

    Raises:
        InputError: `page-output` if `output` has something else than a page, or lies in the prefix.
        EnvmgrError: `nothing-published`, `no-generation`; it cannot be written.
    """
    page = _open(ctx, _record(ctx, generation))
    status = _status(ctx)
    found = {name: read() for name, read in page.files.items()}
    if output is not None:
        output = Path(os.path.abspath(output))  # noqa: PTH100 - a link is refused, not followed
        _require_page(ctx, output)
        if not dry_run:
            _copy(found | ({STATUS: status} if status is not None else {}), output)
    size = sum(map(len, found.values()))
    return PageResult(page.number, page.folder, len(found), size, status is not None, output, dry_run)


def _record(ctx: Context, generation: int | None) -> GenerationRecord:
    return published_record(ctx) if generation is None else read_record(ctx.prefix, generation)


def _open(ctx: Context, record: GenerationRecord) -> _Page:
    """Return the page; one that the publish could not write, or that an older envmgr did not, is made now."""
    folder = ctx.prefix.generation(record.number) / WWW
    names = [path.removeprefix(f"{WWW}/") for path in record.files if path.startswith(f"{WWW}/")]
    if names:
        return _Page(record.number, folder, {name: partial(_read, folder / name) for name in names})
    specs = {name: published_spec(raw).spec for name, raw in read_specs(ctx.prefix, record.number).items()}
    contents = Contents(record.number, record.parent, record.created, record.reason, record.entries, specs)
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
    raise InputError(
        "page-output",
        f"{output} is something else than a page",
        context=(said, "a copy of the page replaces the whole folder"),
        hint="name a folder outside of the prefix that does not exist yet",
    )


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
