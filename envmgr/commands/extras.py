"""The folders that a publish writes into a generation beside its modules, and what makes their files."""

from __future__ import annotations

from collections.abc import Mapping

from envmgr.commands import Context
from envmgr.publish.extras import Extra


def generation_extras(ctx: Context) -> Mapping[str, Extra]:  # noqa: ARG001 - for what comes
    """Return folder of a generation -> what makes its files."""
    return {}
