"""The hosts from which jobs are sent: this host, and the login nodes that the site names.

Jobs inherit from their shells, so these are asked and traced like those of nodes.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SubmitHosts:
    """The hosts that are `asked` beside the nodes; `here` is this host, and empty if it is not one of them.

    `name` is this host's name, `login` are all login nodes of the site, and `here`.
    """

    name: str
    here: str
    asked: tuple[str, ...]
    login: frozenset[str]


def submit_hosts(nodes: Sequence[str], login: Sequence[str], *, all_of_them: bool, sends_jobs: bool) -> SubmitHosts:
    """Return the hosts to ask: this one if it is a login node or `sends_jobs`; with `all_of_them` also other login
    nodes.
    """
    name = this_host()
    here = [name] if name not in nodes and (name in login or sends_jobs) else []
    others = [host for host in login if host not in (*nodes, name)] if all_of_them else []
    return SubmitHosts(name, "".join(here), (*here, *others), frozenset([*login, *here]))


def this_host() -> str:
    """Return the short name of this host."""
    return socket.gethostname().partition(".")[0]
