"""Root drops to the site's build user before it writes anything under the prefix."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from envmgr.errors import EnvmgrError, InputError
from envmgr.system.files import explain_os_error

_PACKAGE = Path(__file__).resolve().parents[1]


def drop_to(user: str | None, prefix: Path, *, reads: Sequence[Path] = ()) -> None:
    """Become `user` for good when running as root and a build user is named; make the prefix theirs if it does not exist.

    Raises:
        InputError: `unknown-user`; EnvmgrError: `wrong-user` when running as somebody else,
        `user-cannot-run` when the user cannot execute this Python.
    """
    if user is None:
        return
    account = _account(user)
    if os.geteuid() == account.pw_uid:
        return
    if os.geteuid() != 0:
        me = user_name(os.geteuid())
        raise EnvmgrError(
            "wrong-user", f"the prefix belongs to {user}, you are {me}", context=f"build_user in site.yaml, prefix {prefix}",
            hint=f"run as root or as {user}",
        )  # fmt: skip
    try:
        os.initgroups(user, account.pw_gid)
        os.setgid(account.pw_gid)
        os.seteuid(account.pw_uid)  # for a look around; still root if need be
        _require_access(user, reads)
        os.seteuid(0)
        _give_prefix(prefix, account)
        os.setuid(account.pw_uid)
    except PermissionError as error:  # root of a user namespace or a container with few capabilities
        raise cannot_become(user, str(error)) from None
    os.environ |= {"HOME": account.pw_dir, "USER": user, "LOGNAME": user}
    _leave_unreadable_folder()


@dataclass(frozen=True, slots=True)
class Account:
    """A user as a process has it."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


def runs_for_root(user: str | None, prefix: Path, *, mask: int, reads: Sequence[Path] = ()) -> Account | None:
    """Whom root starts a process as, where it runs what is not root's; None when not root, or when no other user is named.

    The prefix is made theirs if it does not exist. The caller stays root.

    Raises:
        InputError: `unknown-user`; EnvmgrError: `user-cannot-run`, `user-cannot-read`, `wrong-user`.
    """
    if user is None or os.geteuid() != 0:
        return None
    account = _account(user)
    if account.pw_uid == 0:
        return None
    groups = tuple(os.getgrouplist(user, account.pw_gid))
    found = Account(user, account.pw_uid, account.pw_gid, groups, account.pw_dir)
    _look_around_as(found, reads)
    before = os.umask(mask)
    try:
        _give_prefix(prefix, account)
    finally:
        os.umask(before)
    return found


def cannot_become(user: str, why: str) -> EnvmgrError:
    return EnvmgrError("wrong-user", f"root cannot become {user} here", context=why, hint=f"run as {user}")


def _account(user: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise InputError(
            "unknown-user", f"the build user `{user}` does not exist here", hint=f"useradd --system {user}"
        ) from None


def _give_prefix(prefix: Path, account: pwd.struct_passwd) -> None:
    with explain_os_error(prefix):
        if not prefix.exists():
            prefix.mkdir(parents=True)
            os.chown(prefix, account.pw_uid, account.pw_gid)


def _look_around_as(account: Account, reads: Sequence[Path]) -> None:
    """As `_require_access`, and root again after it."""
    groups, gid = os.getgroups(), os.getegid()
    try:
        os.setgroups(account.groups)
        os.setegid(account.gid)
        os.seteuid(account.uid)
        _require_access(account.name, reads)
    except PermissionError as error:
        raise cannot_become(account.name, str(error)) from None
    finally:
        os.seteuid(0)
        with suppress(PermissionError):  # what could not be changed need not be changed back
            os.setegid(gid)
            os.setgroups(groups)


def _require_access(user: str, reads: Sequence[Path]) -> None:
    """The effective user must be able to run this envmgr, and read what the verb reads, before anything is made."""
    context = "root started envmgr and changes to the build user"
    programs = ((Path(sys.executable), os.X_OK), (_PACKAGE, os.R_OK | os.X_OK))
    if out_of_reach := [path for path, mode in programs if not os.access(path, mode, effective_ids=True)]:
        raise EnvmgrError(
            "user-cannot-run", f"{user} cannot run {out_of_reach[0]}", context=context,
            hint="install envmgr where that user can read it, for example under /opt",
        )  # fmt: skip
    if out_of_reach := [path for path in reads if not os.access(path, os.R_OK, effective_ids=True)]:
        raise EnvmgrError(
            "user-cannot-read", f"{user} cannot read {out_of_reach[0]}", context=context,
            hint="keep the site and its catalogs where that user can read them, for example under /etc/envmgr",
        )  # fmt: skip


def user_name(uid: int) -> str:
    """As people know them; `uid 1234` for one without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _leave_unreadable_folder() -> None:
    """Leave a working folder that the new user may not read (root's home): children would fail in it."""
    try:
        readable = os.access(Path.cwd(), os.R_OK | os.X_OK)
    except OSError:
        readable = False
    if not readable:
        os.chdir("/")
