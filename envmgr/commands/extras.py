"""The folders that a publish writes into a generation beside its modules, and what makes their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.commands import Context
from envmgr.page import WWW
from envmgr.publish.extras import Contents, Extra


def generation_extras(ctx: Context) -> Mapping[str, Extra]:
    """Return folder of a generation -> what makes its files."""

    def page(contents: Contents) -> Iterator[tuple[str, bytes]]:
        from envmgr.commands.page import page_files

        return page_files(ctx, contents)

    return {WWW: page}
