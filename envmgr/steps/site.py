"""The look at the site on this machine: what is wrong with it, and the five things that every site decides."""

from __future__ import annotations

from collections.abc import Iterator

from envmgr.backends import all_backends
from envmgr.catalog.settings import SiteFact
from envmgr.steps import Context
from envmgr.steps.site_nodes import NODE_LOOKS, groups_row, transport_row
from envmgr.steps.site_places import PLACE_LOOKS, build_user_row, catalogs_row, prefix_row
from envmgr.steps.site_policies import POLICY_LOOKS
from envmgr.steps.site_upgrade import upgrade_facts

_ROWS = (prefix_row, build_user_row, groups_row, transport_row, catalogs_row)


def site_facts(ctx: Context) -> tuple[SiteFact, ...]:
    """Return the rows of prefix, build user, groups, transport and catalogs, and each fault of any setting.

    It reads this machine; Slurm and Ansible are asked only if the site names them.
    """
    looks = (*_ROWS, *PLACE_LOOKS, *NODE_LOOKS, *POLICY_LOOKS, _backend_faults, upgrade_facts)
    return tuple(fact for look in looks for fact in look(ctx))


def _backend_faults(ctx: Context) -> Iterator[SiteFact]:
    for backend in all_backends():
        yield from backend.explain(ctx.site)
