"""`envmgr site check`: every setting of the site as this machine finds it, and what an upgrade of envmgr would change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel

from envmgr.backends import all_backends
from envmgr.catalog.settings import SiteFact
from envmgr.catalog.site_file import Signing, SiteFile
from envmgr.commands import Context
from envmgr.commands.site_nodes import NODE_LOOKS
from envmgr.commands.site_places import PLACE_LOOKS
from envmgr.commands.site_policies import POLICY_LOOKS
from envmgr.commands.site_upgrade import explain_upgrade
from envmgr.report import Result


@dataclass(frozen=True, slots=True)
class SiteCheckResult(Result):
    """The result of `site check`. `source` is None for the embedded site."""

    schema: ClassVar[str] = "envmgr.site-check/1"
    source: str | None
    facts: tuple[SiteFact, ...]

    @property
    def exit_code(self) -> int:
        return 1 if any(f.status == "error" for f in self.facts) else 0


def check_site(ctx: Context) -> SiteCheckResult:
    """Explain every setting, and what is wrong with it. It reads this machine; Slurm and Ansible are asked only if the
    site names them.
    """
    source = str(ctx.site.source) if ctx.site.source else None
    return SiteCheckResult(source, (*_explain(ctx, SiteFile, ctx.site, ""), *explain_upgrade(ctx)))


def _explain(ctx: Context, model: type[BaseModel], values: Any, above: str) -> Iterator[SiteFact]:
    """Yield the rows of each field, in the order of the model. A field without a look is a plain value."""
    looks = {**PLACE_LOOKS, **NODE_LOOKS, **POLICY_LOOKS, "backends": _backends}
    for key, info in model.model_fields.items():
        field, value = f"{above}{info.alias or key}", getattr(values, key)
        if field in looks:
            yield from looks[field](ctx)
        elif isinstance(value, BaseModel):
            yield from _explain(ctx, type(value), value, f"{field}.")
        elif info.annotation == Signing | None:
            yield SiteFact(field, "ok", "not set: nothing is signed, and no signature is asked for")
        else:
            yield _plain(field, value, info.description or "", default=value == info.get_default())


def _backends(ctx: Context) -> Iterator[SiteFact]:
    """Yield what each backend says about its part, and the plain values of what it does not mention."""
    for backend in all_backends():
        rows = [*backend.explain(ctx.site)]
        yield from rows
        if backend.settings is None:
            continue
        settings: Mapping[str, Any] = ctx.site.backends.get(backend.name, {})
        for key, info in backend.settings.model_fields.items():
            field = f"backends.{backend.name}.{key}"
            if not any(row.field == field or row.field.startswith(f"{field}.") for row in rows):
                default = key not in settings
                yield _plain(field, settings.get(key, info.get_default()), info.description or "", default=default)


def _plain(field: str, value: Any, what: str, *, default: bool) -> SiteFact:
    """Return the row of a value that no machine can be asked about: what it is, and what it decides."""
    said = "not set" if value in (None, (), {}) else f"{_words(value)}{', by default' if default else ''}"
    return SiteFact(field, "ok", f"{said}: {what}" if what else said)


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(_words, value)) if isinstance(value, list | tuple) else str(value if value != Path() else ".")
