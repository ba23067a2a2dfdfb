"""The steps of hints that open again what users cannot read."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envmgr.audit.table import WHERE, Steps, Where
from envmgr.catalog.site import Site
from envmgr.modules.nodesetup import opening_command
from envmgr.system.modes import ask_owner
from envmgr.system.shelltext import quote


def let_in(site: Site, place: str, mode: str = "", *, at: Where = "node", installs: Sequence[str] = ()) -> Steps:
    """Return how users can enter or read a place: by what its mode does not tell, the command if it is envmgr's own, or whom to ask."""
    if re.fullmatch(r"[0-7]*[57]", mode):
        return Steps(look=f"{WHERE[at]}`getfacl {quote(place)}`: an ACL, or another rule of its server?")
    if command := opening_command(site, [place], installs):
        return Steps(run=command, at=at)
    return Steps(look=f"{WHERE[at]}{ask_owner([place], whom='users')}")
