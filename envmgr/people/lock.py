"""The lock of a user environment: a `wheels.lock`, with one more line of its header, `# envmgr: {…}`.

It has only the difference to the entry below. It lies in the install itself. It names no time and no user, and no
folder but those that are used as they are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from pydantic import Field

from envmgr.errors import EnvmgrError, InputError
from envmgr.store.prefix import Install
from envmgr.system.files import canonical_json, sha256_bytes
from envmgr.system.models import FrozenModel, require_format
from envmgr.system.untrusted_files import ANYWHERE, parse_json, read_bytes
from envmgr.system.untrusted_files import LOCK as LOCK_FILE
from envmgr.wheels.lockfile import WHEELS_LOCK, LockedWheels, read_wheels, wheels_text
from envmgr.wording import one_line

_FORMAT = 1
_LINE = "envmgr"  # of the header


class UserLock(FrozenModel):
    """The content of an environment. `on` is the entry below, `base` its full digest.

    `requirements` are what the user asked for; `replaced` are packages of the entry that the environment has itself;
    `editable` are folders whose Python files it uses as they are, which no lock holds.
    """

    on: str
    base: str = Field(pattern=r"^[0-9a-f]{64}$")
    requirements: tuple[str, ...]
    replaced: tuple[str, ...] = ()
    editable: tuple[Annotated[str, Field(pattern=r"^/[^\r\n]*$")], ...] = ()
    wheels: LockedWheels

    @property
    def content(self) -> str:
        """The sha256 of all that decides its packages: the same for every user and folder."""
        return sha256_bytes(
            canonical_json([self.on, self.base, self.wheels.python, self.wheels.identity(), [*self.editable]])
        )

    @property
    def versions(self) -> dict[str, str]:
        return self.wheels.versions


def lock_text(lock: UserLock) -> str:
    """Return the text of the lock."""
    own = {"schema": _FORMAT, **lock.model_dump(mode="json", exclude={"wheels"})}
    return wheels_text(lock.wheels, {_LINE: json.dumps(own)})


def read_lock(path: Path) -> UserLock:
    """Return the lock in a file. Raise EnvmgrError `lock-missing`; InputError `lock-invalid`, `lock-unhashed`."""
    try:
        wheels, header = read_wheels(read_bytes(path, LOCK_FILE, tree=ANYWHERE).decode(), path)
        own = require_format(parse_json(header[_LINE].encode()), _FORMAT, path)
        return UserLock.model_validate({**{key: own[key] for key in own if key != "schema"}, "wheels": wheels})
    except FileNotFoundError:
        raise EnvmgrError("lock-missing", f"there is no {path}") from None
    except (OSError, ValueError, KeyError) as error:
        said = f"it lacks the line `# {_LINE}: {{…}}`" if isinstance(error, KeyError) else str(error)
        raise InputError(
            "lock-invalid",
            f"{path} is no lock of a user environment",
            context=one_line(said),
            hint="`envmgr user export NAME` writes one",
        ) from None


def lock_of(install: Install) -> UserLock:
    """Return the lock of an environment. Raise InputError as `read_lock`."""
    return read_lock(install.path / WHEELS_LOCK)
