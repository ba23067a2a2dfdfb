"""Logins of servers: from the URL, from rattler's file of credentials, or from `.netrc`.

Source: rattler's documentation, "Authentication"; netrc(5).
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from envmgr.errors import InputError
from envmgr.system.usernames import own_home


def with_login(url: str, environ: Mapping[str, str] = os.environ) -> tuple[str, dict[str, str]]:
    """Return the URL to ask, without user and password, and the headers that only its own host may see.

    Raises:
        InputError: `file-unreadable` for a file of credentials.
    """
    parts = urlsplit(url)
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    if parts.username:
        return bare.geturl(), _basic(unquote(parts.username), unquote(parts.password or ""))
    host = parts.hostname or ""
    match _of_rattler(host, environ):
        case {"BasicHTTP": {"username": str(user), "password": str(password)}}:
            return bare.geturl(), _basic(user, password)
        case {"BearerToken": str(token)}:
            return bare.geturl(), {"Authorization": f"Bearer {token}"}
        case {"CondaToken": str(token)}:
            return bare._replace(path=f"/t/{token}{bare.path}").geturl(), {}
    return bare.geturl(), _basic(*found) if (found := netrc_login(host, environ)) else {}


def netrc_login(host: str, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return user and password of a host from the file that NETRC names, or from `~/.netrc`."""
    import netrc

    try:
        found = netrc.netrc(environ.get("NETRC")).authenticators(host)
    except (OSError, netrc.NetrcParseError):
        return None
    return (found[0], found[2] or "") if found and found[0] else None


def _basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def _unreadable(path: Path, why: str | None) -> InputError:
    hint = "let RATTLER_AUTH_FILE name a JSON file with rattler's logins that you can read, or unset it"
    return InputError("file-unreadable", f"cannot read the logins in {path}", context=str(why), hint=hint)


def _of_rattler(host: str, environ: Mapping[str, str]) -> Any:
    """Return what rattler's file has for the host, or for `*.` and the end of its name; None for nothing."""
    named = environ.get("RATTLER_AUTH_FILE")
    path = Path(named or f"{own_home(environ.get('HOME'))}/.rattler/credentials.json")
    try:
        logins = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        if named:
            raise _unreadable(path, error.strerror) from None
        return None
    except OSError as error:
        raise _unreadable(path, error.strerror) from None
    except ValueError:
        raise _unreadable(path, "it is not JSON") from None
    labels = host.split(".")
    names = (host, *("*." + ".".join(labels[at:]) for at in range(1, len(labels))))
    return next((logins[name] for name in names if name in logins), None) if isinstance(logins, dict) else None
