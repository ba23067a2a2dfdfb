"""Builds without a network: what a build would fetch is in no lock."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.system.run import Runner
from envmgr.system.sandbox import without_network
from envmgr.system.users import Account


@dataclass(frozen=True, slots=True)
class Isolation:
    """The words before a command that keep it off the network, and what the record says of it: `none`, or `open`."""

    words: tuple[str, ...]
    network: str


def isolate(site: Site, runner: Runner, reporter: Reporter, account: Account | None = None) -> Isolation:
    """Return how a build of this user, or of `account`, is kept off the network: what it would fetch is in no lock.

    Raises:
        EnvmgrError: `build-network` if it cannot be.
    """
    words, said = without_network(runner, account)
    if words is not None:
        return Isolation(words, "none")
    if site.policies.allow_network:
        reporter.say(
            "a build from source cannot be kept off the network here: it has one, as the site or --allow-network allows"
        )
        return Isolation((), "open")
    raise EnvmgrError(
        "build-network",
        "a build from source cannot be kept off the network here",
        context=said,
        hint="let the build user make namespaces (sysctl user.max_user_namespaces and user.max_net_namespaces above 0; "
        "on Debian and Ubuntu also kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)"
        "; or build on another host; or run the same command with --allow-network: what its build then fetches is in "
        "no lock",
    )


def warn_of_root(reporter: Reporter, names: Iterable[str], account: Account | None = None) -> None:
    """Say what it means if only root is there to run the build."""
    if account is None and os.geteuid() == 0:
        reporter.say(
            f"{', '.join(names)}: its build runs as root, and can change all of this host; name a `build_user` in "
            "site.yaml, and it can change what that user can"
        )
