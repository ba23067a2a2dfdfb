"""Users of this machine, and the names of those whose numbers files have.

Any number may be without a name: in a container, or if the directory service (sssd, LDAP) does not answer.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine. `gid` is the primary group, `shell` the one of logins."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str = ""

    def groups(self) -> tuple[int, ...]:
        """Return all groups, as the machine knows them now."""
        return tuple(os.getgrouplist(self.name, self.gid))

    def of_a_child(self) -> dict[str, Any]:
        """Return the arguments of `subprocess.Popen` for a process of this user."""
        return {"user": self.uid, "group": self.gid, "extra_groups": self.groups()}

    def variables(self) -> dict[str, str]:
        """Return the variables that a login sets only for the user."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


def user_name(uid: int) -> str:
    """Return the user's name; `uid 1234` for a number without one."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def own_name() -> str:
    """Return the name of the user of this process, independent of $USER; `uid 1234` without a name."""
    return user_name(os.geteuid())


def own_home(environ_home: str | None) -> str:
    """Return $HOME if it is set; else the home that the machine knows, and `/` for a user without a name: envmgr does
    not write there.
    """
    try:
        return environ_home or pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return "/"
