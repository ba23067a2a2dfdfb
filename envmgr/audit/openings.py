"""The steps of hints that open again what users cannot read."""

from __future__ import annotations

from collections.abc import Sequence

from envmgr.audit.fit.install_facts import served
from envmgr.audit.table import WHERE, Steps, Where
from envmgr.catalog.site import Site
from envmgr.modules.nodesetup import opening_command, public_paths
from envmgr.probe.model import Facts
from envmgr.system.modes import ask_owner, without_acl


def open_steps(
    site: Site, paths: Sequence[str], *, whom: str, at: Where = "node", installs: Sequence[str] = (), look: str = ""
) -> Steps:
    """Return how users can read `paths` again: the command if all are envmgr's own, else whom to ask."""
    if command := opening_command(site, paths, installs):
        return Steps(run=command, at=at, look=look)
    return Steps(look="; ".join(filter(None, (f"{WHERE[at]}{ask_owner(paths, whom=whom)}", look))))


def without_acl_steps(place: str, facts: Facts, site: Site) -> Steps:
    """Return how an ACL is taken away from a place of the prefix, where it lies; or whom to ask, if it is not public."""
    if place not in public_paths(site, [place]):
        return open_steps(site, [place], whom="users", at="server")
    server, path = served(place, facts)
    return Steps(
        run=without_acl(path), at="server" if server else "node", look=f"the server is {server}" if server else ""
    )
