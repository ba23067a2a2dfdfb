"""Commands without a network: in a network namespace of their own, which has no interface but a loopback that is down.

Source: unshare(1), network_namespaces(7), user_namespaces(7).
"""

from __future__ import annotations

import os

from envmgr.errors import EnvmgrError, Interrupted
from envmgr.system.run import Runner
from envmgr.system.users import Account

# What an ordinary user needs is a user namespace. Its own number stays its own there where unshare knows how (util-linux 2.36).
_OF_ROOT = ("unshare", "--net")
_OF_USERS = (("unshare", "--user", "--map-current-user", "--net"), ("unshare", "--user", "--map-root-user", "--net"))


def without_network(runner: Runner, account: Account | None = None) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The words before a command of this user, or of root's child `account`, that keep it off every network.

    None where that cannot be had; then what was tried, and what the system said.
    """
    said: list[str] = []
    for words in (_OF_ROOT, *_OF_USERS) if account is None and os.geteuid() == 0 else _OF_USERS:
        try:
            runner.run([*words, "true"], run_as=account, timeout=60)
        except Interrupted:
            raise
        except EnvmgrError as error:
            said += [error.message, *error.context]
        else:
            return words, ()
    return None, tuple(said)
