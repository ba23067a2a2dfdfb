"""The lock of a user environment: a pylock.toml, with what envmgr needs of it in the table `tool.envmgr`.

It has only the difference to the entry below. It lies in the install itself. It names no time and no user, and no
folder but those that are used as they are. Source: packaging.python.org, "pylock.toml Specification".
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from envmgr.errors import EnvmgrError, InputError
from envmgr.people.places import LOCK
from envmgr.store.prefix import Install
from envmgr.system.files import canonical_json, sha256_bytes
from envmgr.system.models import FrozenModel, require_format
from envmgr.system.untrusted_files import ANYWHERE, read_bytes
from envmgr.system.untrusted_files import LOCK as LOCK_FILE
from envmgr.wheels.locked import LockedWheel, WheelSet
from envmgr.wording import one_line

_FORMAT = 1


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
    wheels: WheelSet

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
    """Return the text of pylock.toml."""
    import tomlkit

    own = lock.wheels
    tool: dict[str, Any] = {
        "schema": _FORMAT,
        "on": lock.on,
        "base": lock.base,
        "requirements": [*lock.requirements],
        "replaced": [*lock.replaced],
        "editable": [*lock.editable],
        "python": own.python,
        "platform": own.platform,
        "uv": own.uv,
    }
    minor = ".".join(own.python.split(".")[:2])
    content = {
        "lock-version": "1.0",
        "created-by": "envmgr",
        "requires-python": f"=={minor}.*",
        "packages": [_package(wheel) for wheel in own.wheels],
        "tool": {"envmgr": tool},
    }
    return tomlkit.dumps(content)


def _package(wheel: LockedWheel) -> dict[str, Any]:
    file: dict[str, Any] = {"name": wheel.file, "url": wheel.url or f"index:{wheel.index}/{wheel.file}"}
    if wheel.size is not None:
        file["size"] = wheel.size
    file["hashes"] = {"sha256": wheel.sha256}
    tool: dict[str, Any] = {"index": wheel.index}
    if wheel.requires is not None:
        tool["requires"] = [*wheel.requires]
    return {"name": wheel.name, "version": wheel.version, "wheels": [file], "tool": {"envmgr": tool}}


def read_lock(path: Path) -> UserLock:
    """Return the lock in a file. Raise EnvmgrError `lock-missing`; InputError `lock-invalid`."""
    try:
        data = tomllib.loads(read_bytes(path, LOCK_FILE, tree=ANYWHERE).decode())
        tool = data["tool"]["envmgr"]
        require_format(tool, _FORMAT, path)
        wheels = WheelSet(
            python=tool["python"],
            platform=tool["platform"],
            uv=tool["uv"],
            wheels=tuple(_wheel(package) for package in data["packages"]),
        )
        given = {key: tuple(tool[key]) for key in ("requirements", "replaced", "editable")}
        return UserLock(on=tool["on"], base=tool["base"], wheels=wheels, **given)
    except FileNotFoundError:
        raise EnvmgrError("lock-missing", f"there is no {path}") from None
    except (OSError, ValueError, KeyError, TypeError, IndexError, ValidationError) as error:
        said = f"it lacks {error}" if isinstance(error, KeyError) else str(error).partition("\n")[0]
        raise InputError(
            "lock-invalid",
            f"{path} is no lock of a user environment",
            context=one_line(said),
            hint="`envmgr user export NAME` writes one",
        ) from None


def _wheel(package: dict[str, Any]) -> LockedWheel:
    (file,), tool = package["wheels"], package["tool"]["envmgr"]
    return LockedWheel(
        name=package["name"],
        version=package["version"],
        file=file["name"],
        sha256=file["hashes"]["sha256"],
        size=file.get("size"),
        index=tool["index"],
        requires=None if "requires" not in tool else tuple(tool["requires"]),
        url=file["url"],
    )


def lock_of(install: Install) -> UserLock:
    """Return the lock of an environment. Raise InputError as `read_lock`."""
    return read_lock(install.path / LOCK)
