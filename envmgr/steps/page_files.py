"""The files of a generation's page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial

from envmgr.page import WWW
from envmgr.page.entries import make_catalog
from envmgr.page.render import render_page
from envmgr.publish.extras import GenerationContents
from envmgr.steps import Context
from envmgr.steps.job_text import example_job
from envmgr.steps.sboms import entry_sboms
from envmgr.system.files import read_regular


def page_files(ctx: Context, contents: GenerationContents) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a generation's page: the path below it, and the content."""
    sboms = {name: f"sbom/{entry.path.removeprefix('store/')}.cdx.json" for name, entry in contents.entries.items()}
    made = _sboms(ctx, contents, sboms)
    named = {entry: file for entry, file in sboms.items() if file in made}
    catalog, locks = make_catalog(ctx.prefix, ctx.site.name, contents, partial(example_job, ctx.site), named)
    yield from render_page(catalog)
    yield from locks.items()
    yield from made.items()


def _sboms(ctx: Context, contents: GenerationContents, files: Mapping[str, str]) -> dict[str, bytes]:
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
