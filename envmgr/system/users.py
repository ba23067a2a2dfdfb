"""The user of a process, and how it becomes another: itself for good, a child, a command by its first words.

Root drops to the site's build user before anything is written under the prefix.
"""

from __future__ import annotations

import os
import pwd
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from envmgr.errors import EnvmgrError, InputError
from envmgr.system.files import explain_os_error
from envmgr.system.safe_paths import give_folder
from envmgr.system.usernames import Account as Account  # noqa: PLC0414 - who asks for accounts gets their class here, too
from envmgr.system.usernames import user_name

_PACKAGE = Path(__file__).resolve().parents[1]


def find_account(name: str) -> Account | None:
    """Return the account; None if the user does not exist here."""
    try:
        return _account(pwd.getpwnam(name))
    except KeyError:
        return None


def account_of_uid(uid: int) -> Account | None:
    """Return the account with this number; None if there is none here."""
    try:
        return _account(pwd.getpwuid(uid))
    except KeyError:
        return None


def require_account(name: str) -> Account:
    """Return the account. Raise InputError `unknown-user`."""
    found = find_account(name)
    if found is None:
        raise InputError("unknown-user", f"the user `{name}` does not exist here")
    return found


def this_account() -> Account:
    """Return the effective user of this process. Raises InputError `unknown-user` for a number without a name."""
    try:
        return _account(pwd.getpwuid(os.geteuid()))
    except KeyError:
        raise InputError(
            "unknown-user",
            f"the user with the number {os.geteuid()} does not exist here",
            hint="does the directory service answer (`getent passwd`)? in a container, give the user an entry "
            "in /etc/passwd",
        ) from None


def drop_to(user: str | None, prefix: Path, *, reads: Sequence[Path] = ()) -> None:
    """Become `user` for good when running as root and a build user is named; make the prefix theirs if it does not
    exist.

    Raises:
        InputError: `unknown-user`; EnvmgrError: `wrong-user` when running as another user than that and root,
            `user-cannot-run` when the user cannot execute this Python, `user-cannot-read` one of `reads`.
    """
    if user is None:
        return
    account = build_account(user)
    if os.geteuid() == account.uid:
        return
    if os.geteuid() != 0:
        me = user_name(os.geteuid())
        raise EnvmgrError(
            "wrong-user",
            f"the prefix belongs to {user}, you are {me}",
            context=f"build_user in site.yaml, prefix {prefix}",
            hint=f"run as root or as {user}",
        )
    with _told(account):
        _prepare(account, prefix, reads)
        os.initgroups(account.name, account.gid)
        # The user changes last: without the rights of root, groups cannot be changed any more.
        os.setgid(account.gid)
        os.setuid(account.uid)
    # Programs look for their settings in $HOME, which is still that of root.
    os.environ |= account.variables()
    _leave_unreadable_folder()


def refuse_tracing() -> None:
    """Keep other processes of the user from tracing this one, or reading its memory. Source: prctl(2),
    PR_SET_DUMPABLE.
    """
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


_PR_SET_DUMPABLE = 4
_MOST_LINKS = 40  # as the kernel follows


def runs_for_root(user: str | None, prefix: Path, *, mask: int, reads: Sequence[Path] = ()) -> Account | None:
    """Return the account that root starts a process as to run what is not root's; None when not root, or if no other is
    named.

    The prefix is made theirs, under the umask `mask`, if it does not exist. The caller stays root.

    Raises:
        InputError: `unknown-user`; EnvmgrError: `user-cannot-run`, `user-cannot-read`, `wrong-user`.
    """
    if user is None or os.geteuid() != 0:
        return None
    account = build_account(user)
    if account.uid == 0:
        return None
    before = os.umask(mask)
    try:
        with _told(account):
            _prepare(account, prefix, reads)
    finally:
        os.umask(before)
    return account


def lesser_account(user: str | None) -> Account | None:
    """Return the account that root runs a program as which only reads what strangers wrote; None when not root, or if
    there is no such user.

    Raise EnvmgrError: `user-cannot-run`, `wrong-user`.
    """
    account = find_account(user) if user is not None and os.geteuid() == 0 else None
    if account is None or account.uid == 0:
        return None
    with _told(account), _effective(account):
        _require_access(account.name, ())
    return account


def can_enter(account: Account, folder: Path) -> bool:
    """Return whether that user may go through the folder, and through all above it."""
    groups = account.groups()

    def one(status: os.stat_result) -> bool:
        if status.st_uid == account.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        # As in the kernel, only the first class that fits counts, even if a later one permits more.
        return bool(status.st_mode & (stat.S_IXGRP if status.st_gid in groups else stat.S_IXOTH))

    return all(one(each.stat()) for each in (folder, *folder.parents))


def access_faults(
    account: Account, reads: Sequence[Path], more: Callable[[], Iterable[EnvmgrError]]
) -> tuple[EnvmgrError, ...] | None:
    """Return what would keep `account` from running envmgr, from reading `reads`, and what `more` finds as that user,
    as a verb would raise it.

    None if it cannot be seen: this process is neither that user's nor root's.
    """
    if os.geteuid() not in (0, account.uid):
        return None
    try:
        with _told(account), _effective(account) if os.geteuid() != account.uid else nullcontext():
            return (*_access_faults(account.name, reads), *more())
    except EnvmgrError as error:
        return (error,)


def session_as(user: str | None, env: dict[str, str], *, find: Callable[[str], str]) -> tuple[str, ...]:
    """Return the words before a command with which `user` runs it with the limits of a login; set that user's variables
    in `env`.

    There are no words if this process need not become that user, or may not. `find` gives the path of a program. Raises
    InputError `unknown-user`.
    """
    if user is None or os.geteuid() != 0:
        return ()
    account = require_account(user)
    if account.uid == 0:
        return ()
    env |= account.variables()
    # runuser opens a PAM session, which applies the limits of a login.
    return (find("runuser"), "-u", account.name, "--")


def command_as(account: Account) -> tuple[str, ...]:
    """Return the words before a command so that root's child is that user from its first instruction on: no process
    stays between.
    """
    return ("setpriv", "--reuid", str(account.uid), "--regid", str(account.gid), "--init-groups")


def _account(entry: pwd.struct_passwd) -> Account:
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir, entry.pw_shell)


def build_account(user: str) -> Account:
    """Return the site's build user. Raise InputError `unknown-user`."""
    found = find_account(user)
    if found is None:
        raise InputError(
            "unknown-user",
            f"the build user `{user}` does not exist here",
            hint=f"useradd --system --create-home {user}",
        )
    return found


@contextmanager
def _told(account: Account) -> Iterator[None]:
    """Explain what the kernel refuses to root of a user namespace, or of a container with few capabilities."""
    try:
        yield
    except PermissionError as error:
        raise EnvmgrError(
            "wrong-user", f"root cannot become {account.name} here", context=str(error), hint=f"run as {account.name}"
        ) from None


def _prepare(account: Account, prefix: Path, reads: Sequence[Path]) -> None:
    """Check access as that user, and make the prefix theirs. The process is root again after each step.

    The user makes the prefix where they may. Elsewhere root does, in folders that only root can change.
    """
    with _effective(account):
        _require_access(account.name, reads)
    with explain_os_error(prefix):
        if prefix.exists():
            return
        with _effective(account), suppress(OSError):
            prefix.mkdir(parents=True)
            return
        with _effective(account, uid=0):  # folders above belong to their group, and can be reached with any umask
            give_folder(prefix, account.uid, account.gid)


@contextmanager
def _effective(account: Account, uid: int | None = None) -> Iterator[None]:
    """Let root act with the groups of `account`, as that user or as `uid`, and then as itself again."""
    groups, gid = os.getgroups(), os.getegid()
    try:
        os.initgroups(account.name, account.gid)
        os.setegid(account.gid)
        os.seteuid(account.uid if uid is None else uid)
        yield
    finally:
        # Root comes first: no other user may change groups.
        os.seteuid(0)
        with suppress(PermissionError):  # what could not be changed need not be changed back
            os.setegid(gid)
            os.setgroups(groups)


def _require_access(user: str, reads: Sequence[Path]) -> None:
    """Require that the effective user can run this envmgr, and read what the command reads, before anything is made."""
    for fault in _access_faults(user, reads):
        raise fault


def _access_faults(user: str, reads: Sequence[Path]) -> Iterator[EnvmgrError]:
    """Yield what keeps the effective user from running this envmgr, and from reading `reads`: the first of each."""
    context = "root started envmgr and changes to the build user"
    programs = ((Path(sys.executable), os.X_OK), (_PACKAGE, os.R_OK | os.X_OK))
    # access(2) asks for the real user by default, which is still root.
    if out_of_reach := [path for path, mode in programs if not os.access(path, mode, effective_ids=True)]:
        path = out_of_reach[0]
        python = "with a Python that this user can run, such as /usr/bin/python3, " if os.path.islink(path) else ""  # noqa: PTH114 - False where it cannot be looked at
        yield EnvmgrError(
            "user-cannot-run",
            f"{user} cannot run {path}{_why_closed(path, user)}",
            context=context,
            hint=f"install envmgr {python}where that user can read it, for example under /opt",
        )
    if out_of_reach := [path for path in reads if not _readable(path)]:
        yield EnvmgrError(
            "user-cannot-read",
            f"{user} cannot read {out_of_reach[0]}{_why_closed(out_of_reach[0], user)}",
            context=context,
            hint="keep the site and its catalogs where that user can read them, for example under /etc/envmgr",
        )


def _why_closed(path: Path, user: str) -> str:
    """Return the first folder on the way to `path` that the effective user cannot enter, with the link that leads
    there; empty if it is `path` itself.
    """
    place, left, links, by_link = Path("/"), [*path.absolute().parts[1:]], 0, ""
    while left and os.access(place, os.X_OK, effective_ids=True):
        name = left.pop(0)
        place = place.parent if name == ".." else place / name
        if os.path.islink(place) and links < _MOST_LINKS:  # noqa: PTH114 - as above
            links += 1
            target = place.readlink()
            place, ahead = (Path("/"), target.parts[1:]) if target.is_absolute() else (place.parent, target.parts)
            left = [*ahead, *left]
            by_link = f"it leads to {place.joinpath(*left)}, and "
    state = f"is closed to {user}" if os.path.lexists(place) else "does not exist"
    return f": {by_link}{place} {state}" if left or by_link else ""


def _readable(path: Path) -> bool:
    return os.access(path, os.R_OK, effective_ids=True) and (
        not path.is_dir() or os.access(path, os.X_OK, effective_ids=True)
    )


def _leave_unreadable_folder() -> None:
    """Leave a working folder that the new user may not read (root's home): children would fail in it."""
    try:
        readable = os.access(Path.cwd(), os.R_OK | os.X_OK)
    except OSError:
        readable = False
    if not readable:
        os.chdir("/")
