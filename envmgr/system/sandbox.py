"""Commands without a network, in a network namespace that has only a loopback interface that is down; and commands with
mounts of their own, which no other process sees.

Source: unshare(1), network_namespaces(7), user_namespaces(7), mount_namespaces(7).
"""

from __future__ import annotations

import os
from pathlib import Path

from envmgr.errors import EnvmgrError, Interrupted
from envmgr.system.run import Runner
from envmgr.system.shelltext import script_text
from envmgr.system.users import Account

PLACE = Path("/var/tmp")  # noqa: S108 - a folder that every host has: nothing is written to it
"""The path of a folder that must have the same path on every host, for every user."""

# What an ordinary user needs is a user namespace. Its own number stays its own there where unshare knows how
# (util-linux 2.36).
_OF_ROOT = ("unshare", "--net")
_OF_USERS = (("unshare", "--user", "--map-current-user", "--net"), ("unshare", "--user", "--map-root-user", "--net"))
# --keep-caps: a user who is not mapped to root would else lose the right to mount at the next exec.
_OF_MOUNTS = ("unshare", "--user", "--map-current-user", "--keep-caps", "--mount")


def without_network(runner: Runner, account: Account | None = None) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return the words before a command of this user, or of root's child `account`, that keep it off every network.

    None if this is not possible; the second value then lists what was tried, and what the system said.
    """
    said: list[str] = []
    # Root of a container may lack the right to unshare, where a user namespace may still work.
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


def seen_at_place(
    folder: Path, before: tuple[str, ...], runner: Runner, account: Account | None = None
) -> tuple[str, ...]:
    """Return the words before a command of this user, or of root's child `account`, that stands in `folder` and sees it
    at PLACE, on a host with the name `envmgr`.

    `before` are words that go before them. Empty if that cannot be had.
    """
    root = account is None and os.geteuid() == 0
    words = (
        *(("unshare", "--mount") if root else _OF_MOUNTS),
        "--uts",
        "/bin/sh",
        "-c",
        script_text(__file__, "place.sh"),
        "sh",
    )
    words = (*words, str(folder), str(PLACE))
    try:
        runner.run([*before, *words, "true"], run_as=account, timeout=60)
    except Interrupted:
        raise
    except EnvmgrError:
        return ()
    return words


def mounting_script() -> str:
    """Return the script that mounts images by squashfuse, in namespaces that are there already, and becomes a command."""
    return script_text(__file__, "mounted.sh")


def with_own_mounts(runner: Runner) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return the words before a command of this user that may mount what it likes, only for itself, as `mount --rbind`;
    and `setpriv`, which takes that right away again.

    None if that cannot be had; then what the system said.
    """
    words = ("unshare", "--mount") if os.geteuid() == 0 else _OF_MOUNTS
    try:
        # This mount changes nothing that is visible, and shows that mounts are permitted.
        look = "mount --rbind / / && exec setpriv --inh-caps=-all --ambient-caps=-all true"
        runner.run([*words, "/bin/sh", "-c", look], timeout=60)
    except Interrupted:
        raise
    except EnvmgrError as error:
        return None, (error.message, *error.context)
    return words, ()
