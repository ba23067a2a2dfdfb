"""Root drops to the site's build user before it writes anything under the prefix."""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

from envmgr.errors import EnvmgrError, InputError


def drop_to(user: str | None, prefix: Path) -> None:
    """Become `user` for good when running as root and a build user is named; make the prefix theirs if it does not exist.

    Raises:
        InputError: `unknown-user`; EnvmgrError: `wrong-user` when running as somebody else,
        `user-cannot-run` when the user cannot execute this Python.
    """
    if user is None:
        return
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise InputError(
            "unknown-user", f"the build user `{user}` does not exist here", hint=f"useradd --system {user}"
        ) from None
    if os.geteuid() == account.pw_uid:
        return
    if os.geteuid() != 0:
        me = pwd.getpwuid(os.geteuid()).pw_name
        raise EnvmgrError(
            "wrong-user", f"the prefix belongs to {user}, you are {me}", context=f"build_user in site.yaml, prefix {prefix}",
            hint=f"run as root or as {user}",
        )  # fmt: skip
    if not prefix.exists():
        prefix.mkdir(parents=True)
        os.chown(prefix, account.pw_uid, account.pw_gid)
    os.initgroups(user, account.pw_gid)
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    os.environ |= {"HOME": account.pw_dir, "USER": user, "LOGNAME": user}
    _leave_unreadable_folder()
    if not os.access(sys.executable, os.X_OK):
        raise EnvmgrError(
            "user-cannot-run", f"{user} cannot run {sys.executable}", context="root started envmgr and changed to the build user",
            hint="install envmgr where that user can read it, for example under /opt",
        )  # fmt: skip


def _leave_unreadable_folder() -> None:
    """Leave a working folder that the new user may not read (root's home): children would fail in it."""
    try:
        readable = os.access(Path.cwd(), os.R_OK | os.X_OK)
    except OSError:
        readable = False
    if not readable:
        os.chdir("/")
