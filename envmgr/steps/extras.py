"""The folders that a publish writes into a generation beside its modules, and what makes their files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from envmgr.page import WWW
from envmgr.publish.extras import Extra, GenerationContents
from envmgr.steps import Context


def generation_extras(ctx: Context) -> Mapping[str, Extra]:
    """Return folder of a generation -> what makes its files."""

    def page(contents: GenerationContents) -> Iterator[tuple[str, bytes]]:
        from envmgr.steps.page_files import page_files

        return page_files(ctx, contents)

    def portal(contents: GenerationContents) -> Iterator[tuple[str, bytes]]:
        """Yield the list of modules that Open OnDemand reads, under the id that it has for the cluster."""
        cluster = re.sub(r"[^A-Za-z0-9._-]+", "-", ctx.site.name)
        modules = ctx.prefix.generation(contents.number) / "modules"
        yield f"{cluster}.json", ctx.find_lmod().spider_json(modules).encode()

    return {WWW: page, "portal": portal}
