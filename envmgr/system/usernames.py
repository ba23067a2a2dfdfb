"""The names of the users whose numbers files have.

Any number may be without a name: in a container, or if the directory service (sssd, LDAP) does not answer.
"""

from __future__ import annotations

import os
import pwd


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
