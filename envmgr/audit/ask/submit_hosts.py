"""The hosts from which jobs are sent: this host, and the login nodes that the site names.

Jobs inherit from their shells, so these are asked and traced like those of nodes.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from envmgr.audit.ask.ask_nodes import Asker
from envmgr.probe.model import Fleet
from envmgr.probe.shell import Folding

NOBODY = Fleet((), {}, {}, ())


@dataclass(frozen=True, slots=True)
class SubmitHosts:
    """The hosts to ask beside the nodes: `here`, empty if this host is not one of them, and `others` over ssh.

    `name` is this host's name, `login` are all login nodes of the site, and `here`.
    """

    name: str
    here: str = ""
    others: tuple[str, ...] = ()
    login: frozenset[str] = frozenset()

    def ask(self, script: str, asker: Asker, hosts: Sequence[str] | None = None) -> Fleet | None:
        """Return the answers of `hosts`, of all by default; None if there are none to ask."""
        wanted = (self.here, *self.others) if hosts is None else hosts
        others = [host for host in self.others if host in wanted]
        here = self.here if self.here in wanted else ""
        if not here and not others:
            return None
        with ThreadPoolExecutor(1) as pool:
            local = pool.submit(_ask_here, here, script, asker) if here else None
            far = asker.ssh(others, script, None, label="login nodes") if others else NOBODY
            return both(local.result() if local else NOBODY, far)


def both(one: Fleet, other: Fleet) -> Fleet:
    """Return the answers of different hosts as one fleet."""
    return Fleet(
        (*one.groups, *other.groups),
        {**one.own, **other.own},
        {**one.replies, **other.replies},
        (*one.missing, *other.missing),
    )


def submit_hosts(nodes: Sequence[str], login: Sequence[str], *, all_of_them: bool, sends_jobs: bool) -> SubmitHosts:
    """Return the hosts to ask: this one if it is a login node or `sends_jobs`; with `all_of_them` also other login
    nodes.
    """
    name = this_host()
    here = name if name not in nodes and (name in login or sends_jobs) else ""
    others = tuple(host for host in login if host not in (*nodes, name)) if all_of_them else ()
    return SubmitHosts(name, here, others, frozenset([*login, *([here] if here else ())]))


def this_host() -> str:
    """Return the short name of this host."""
    return socket.gethostname().partition(".")[0]


def _ask_here(name: str, script: str, asker: Asker) -> Fleet:
    folding = Folding((name,))
    folding(asker.ask_here(name, script))
    return folding.fleet()
