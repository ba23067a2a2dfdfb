"""`envmgr site check`: what is wrong with the site on this machine, and the five things that every site decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from envmgr.backends import all_backends
from envmgr.catalog.settings import SiteFact
from envmgr.report import Lines, Result, Table
from envmgr.steps import Context
from envmgr.steps.site_nodes import NODE_LOOKS, groups_row, transport_row
from envmgr.steps.site_places import PLACE_LOOKS, build_user_row, catalogs_row, prefix_row
from envmgr.steps.site_policies import POLICY_LOOKS
from envmgr.steps.site_upgrade import upgrade_facts

_ROWS = (prefix_row, build_user_row, groups_row, transport_row, catalogs_row)


@dataclass(frozen=True, slots=True)
class SiteCheckResult(Result):
    """The result of `site check`. `source` is None for the embedded site."""

    schema: ClassVar[str] = "envmgr.site-check/1"
    source: str | None
    facts: tuple[SiteFact, ...]

    @property
    def exit_code(self) -> int:
        return 1 if any(f.status == "error" for f in self.facts) else 0

    def lines(self) -> Lines:
        yield f"site: {self.source or 'embedded (no site.yaml found): this machine only'}"
        yield Table([f.status, f.field, f.text + (f"  ({f.hint})" if f.hint else "")] for f in self.facts)


def check_site(ctx: Context) -> SiteCheckResult:
    """Return the rows of prefix, build user, groups, transport and catalogs, and each fault of any setting.

    It reads this machine; Slurm and Ansible are asked only if the site names them.
    """
    source = str(ctx.site.source) if ctx.site.source else None
    looks = (*_ROWS, *PLACE_LOOKS, *NODE_LOOKS, *POLICY_LOOKS, _backend_faults, upgrade_facts)
    return SiteCheckResult(source, tuple(fact for look in looks for fact in look(ctx)))


def _backend_faults(ctx: Context) -> Iterator[SiteFact]:
    for backend in all_backends():
        yield from backend.explain(ctx.site)
