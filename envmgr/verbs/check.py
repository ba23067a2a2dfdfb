"""`envmgr check`: what is wrong with the site on this machine, and with recipes and locks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from envmgr.backends import all_backends
from envmgr.catalog.settings import SiteFact
from envmgr.errors import EnvmgrError, Interrupted
from envmgr.report import Finding, Lines, Result, Table
from envmgr.steps import Context
from envmgr.steps.catalog_check import Accepted, CatalogCheck, check_catalog
from envmgr.steps.site_nodes import NODE_LOOKS, groups_row, transport_row
from envmgr.steps.site_places import PLACE_LOOKS, build_user_row, catalogs_row, prefix_row
from envmgr.steps.site_policies import POLICY_LOOKS
from envmgr.steps.site_upgrade import upgrade_facts
from envmgr.verbs import SomeEntries, needs
from envmgr.wording import counted

_ROWS = (prefix_row, build_user_row, groups_row, transport_row, catalogs_row)


@dataclass(frozen=True, slots=True)
class CheckResult(Result):
    """The result of `check`. `source` is the file of the site, None for the embedded one. With entries there are no `facts`
    of the site. `checked` is the number of recipes.
    """

    schema: ClassVar[str] = "envmgr.check/1"
    source: str | None
    facts: tuple[SiteFact, ...]
    checked: int
    findings: tuple[Finding, ...]
    accepted: tuple[Accepted, ...]

    @property
    def exit_code(self) -> int:
        faults = (*(f.status for f in self.facts), *(f.severity for f in self.findings))
        return 1 if "error" in faults else 0

    def lines(self) -> Lines:
        if self.facts:
            yield f"site: {self.source or 'embedded (no site.yaml found): this machine only'}"
            yield Table([f.status, f.field, f.text + (f"  ({f.hint})" if f.hint else "")] for f in self.facts)
        for finding in self.findings:
            yield f"{finding.severity}[{finding.check}]: {finding.where}: {finding.found}"
            if finding.hint:
                yield f"  hint: {finding.hint}"
        for each in self.accepted:
            yield f"accepted: {each.entry}: {each.rule}: {each.change} ({each.reason})"
        errors, warnings = (sum(f.severity == kind for f in self.findings) for kind in ("error", "warning"))
        found = f"{counted(errors, 'errors')}, {counted(warnings, 'warnings')}"
        yield f"{counted(self.checked, 'recipes')} checked: {found}"


@needs("prefix")
def check(ctx: Context, entries: SomeEntries = None) -> CheckResult:
    """Check the site, recipes and locks.

    Without entries it looks at the settings of the site on this machine, and at the whole catalog. The exit code is 1 if
    something is wrong.
    """
    source = str(ctx.site.source) if ctx.site.source else None
    facts = () if entries else site_facts(ctx)
    try:
        found = check_catalog(ctx, entries or ())
    except Interrupted:
        raise
    except EnvmgrError as error:  # a catalog that cannot be read: the rows of the site are not lost with it
        if entries:
            raise
        found = CatalogCheck(0, (Finding("catalog", "error", "catalogs", error.message, hint=error.hint),))
    return CheckResult(source, facts, found.checked, found.findings, found.accepted)


def site_facts(ctx: Context) -> tuple[SiteFact, ...]:
    """Return the rows of prefix, build user, groups, transport and catalogs, and each fault of any setting.

    It reads this machine; Slurm and Ansible are asked only if the site names them.
    """
    looks = (*_ROWS, *PLACE_LOOKS, *NODE_LOOKS, *POLICY_LOOKS, _backend_faults, upgrade_facts)
    return tuple(fact for look in looks for fact in look(ctx))


def _backend_faults(ctx: Context) -> Iterator[SiteFact]:
    for backend in all_backends():
        yield from backend.explain(ctx.site)
