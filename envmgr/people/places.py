"""The places of a user's environments, in the user's own storage.

    ~/.local/share/envmgr/envs/NAME              a link to the install that NAME is now
    ~/.local/share/envmgr/envs/.envmgr/store     the installs, each read-only, with a manifest beside it, as in a prefix
    ~/.local/share/envmgr/envs/.envmgr/modules   the folder for MODULEPATH: user/NAME.lua

An environment at another place (`--at DIR`) has its install in the folder `.envmgr-USER` beside DIR.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from envmgr.catalog.names import MODULE_NAME, Entry, fault_in_part
from envmgr.catalog.site_file import is_plain_path
from envmgr.errors import InputError
from envmgr.store.prefix import SHORT, Install, Prefix
from envmgr.system.usernames import own_home, own_name, user_name

INSIDE = ".envmgr"
_TARGET = re.compile(rf"/.*/{re.escape(INSIDE)}(-[^/]+)?/store/{MODULE_NAME}/[^/]+-[0-9a-f]{{{SHORT}}}")


@dataclass(frozen=True, slots=True)
class UserPlaces:
    """The places of one user. `folder` has a link for each environment."""

    folder: Path

    @property
    def prefix(self) -> Prefix:
        """The places of installs, in the form of a site's prefix; it has no generations."""
        return Prefix(self.folder / INSIDE)

    @property
    def modules(self) -> Path:
        """The folder that MODULEPATH names."""
        return self.prefix.root / "modules"

    def link(self, name: str) -> Path:
        return self.folder / name

    def module(self, name: str) -> Path:
        return self.modules / MODULE_NAME / f"{name}.lua"

    def reported(self, name: str) -> Path:
        """The file whose time says when a load has last reported that the entry below is another one."""
        return self.prefix.root / f"reported-{name}"

    def lock(self, name: str) -> Path:
        """The lock under which the environment `name` is changed."""
        return self.prefix.locks / f"{name}.lock"

    def names(self) -> Iterator[str]:
        """Yield the names of all environments, sorted."""
        if self.folder.is_dir():
            found = sorted(each.name for each in self.folder.iterdir() if each.name[0] != "." and each.is_symlink())
            yield from (name for name in found if self.install(name) is not None)

    def install(self, name: str) -> Install | None:
        """Return the install that NAME is now, its digest shortened; None if there is no such environment."""
        try:
            target = self.link(name).readlink()
        except OSError:
            return None
        if not _TARGET.fullmatch(str(target)):
            return None  # somebody else's link
        label = target.name
        return Install(Prefix(target.parents[2]), Entry(MODULE_NAME, label[: -SHORT - 1]), label[-SHORT:])


def user_places(environ: Mapping[str, str]) -> UserPlaces:
    """Return the places of the user of this process. Source: XDG Base Directory Specification."""
    data = environ.get("XDG_DATA_HOME", "")
    base = Path(data) if data.startswith("/") else Path(own_home(environ.get("HOME"))) / ".local/share"
    return UserPlaces(base / "envmgr/envs")


def require_name(name: str) -> None:
    """Raise InputError `name-invalid` for a name that no module can have."""
    if fault := fault_in_part(name):
        raise InputError("name-invalid", f"an environment cannot be called `{name}`", context=fault)


def place_at(at: Path) -> tuple[Path, Prefix]:
    """Return the link of an environment at `at`, and the prefix of its install beside it.

    Raise InputError `place-taken` if something is there already, or `at` has no folder; `place-invalid`.
    """
    link = Path(os.path.abspath(at))  # noqa: PTH100 - `resolve` would follow the last link
    if not is_plain_path(link):
        raise InputError(
            "place-invalid",
            f"no environment can lie at {link}",
            context="it goes into PATH and #! lines, which take no spaces, colons, quotes and shell characters",
            hint="name another path",
        )
    if os.path.lexists(link):
        raise InputError("place-taken", f"{link} is there already", hint="name a path that does not exist yet")
    if not link.parent.is_dir():
        raise InputError("place-taken", f"there is no folder {link.parent}", hint="make it first, or name another one")
    root = link.parent / f"{INSIDE}-{re.sub(r'[^A-Za-z0-9._-]+', '-', own_name())}"
    require_own(root)
    return link, Prefix(root)


def require_own(root: Path, *, make: bool = False) -> None:
    """Require that the folder of installs is this user's own, and no link, if it is there: what lies in it runs as the
    user. `make` makes it first.

    Raises InputError `place-invalid`; OSError.
    """
    if make:
        root.mkdir(mode=0o755, parents=True, exist_ok=True)
    try:
        status = root.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        what = "is no folder" if status.st_uid == os.geteuid() else f"belongs to {user_name(status.st_uid)}"
        raise InputError(
            "place-invalid",
            f"{root} {what}",
            context="the programs in it would run as you",
            hint="name a path in another folder, one that only you can write",
        )
