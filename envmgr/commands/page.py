"""`envmgr page`: the page of a generation, made at its publish, served and copied."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from envmgr.commands import Context
from envmgr.commands.job import example_job
from envmgr.page.entries import make_catalog
from envmgr.page.render import render_page
from envmgr.publish.extras import Contents


def page_files(ctx: Context, contents: Contents) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a generation's page: the path below it, and the content."""
    catalog, locks = make_catalog(ctx.prefix, ctx.site.name, contents, partial(example_job, ctx.site))
    yield from render_page(catalog)
    yield from locks.items()
