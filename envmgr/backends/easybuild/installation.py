"""An EasyBuild that is installed: where, its sha256, how its process is started, and whether envmgr's own may run.

It always runs as a process of its own: its start-up takes a second, and its licence is GPL-2.0-only. envmgr imports
nothing of it.
"""

from __future__ import annotations

import base64
import csv
import grp
import os
import socket
import stat
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envmgr.errors import EnvmgrError
from envmgr.system.files import sha256_bytes
from envmgr.system.run import clean_env
from envmgr.system.usernames import user_name

_STICKY_DOOR = stat.S_ISVTX  # in /tmp other users may write, but not rename root's files


def only_ours(path: Path) -> bool:
    """Return whether only root and the caller can change the file at `path`, or put another in its place."""
    return not any(fault_of(each) for each in (*way_to(path), *way_to(path.resolve()), path) if os.path.lexists(each))


def fault_on_the_way(path: Path) -> str:
    """Return the first unsafe place and its fault, among `path`, its link's target and all folders above.

    Through such a place another user could change `path`. Empty if there is none.
    """
    for place in dict.fromkeys((*way_to(path), path, *way_to(path.resolve()), path.resolve())):
        if why := fault_of(place):
            return f"{place} {why}"
    return ""


def fault_below(folder: Path) -> str:
    """Return the first unsafe place below `folder` and its fault; empty without one.

    A link is a fault: its target lies elsewhere. Raises OSError.
    """
    waiting, harmless = [str(folder)], dict[tuple[int, int], bool]()
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    return f"{entry.path} is a link"
                if why := _fault_in(entry.stat(), harmless):
                    return f"{entry.path} {why}"
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return ""


def fault_of(path: Path) -> str:
    """Return why another user could write to `path`, by its owner or mode; empty if no other user can."""
    try:
        return _fault_in(path.stat())
    except OSError:
        return ""  # a link to nowhere has nothing to run


def _fault_in(status: os.stat_result, harmless: dict[tuple[int, int], bool] | None = None) -> str:
    """Return the fault; `harmless` remembers (owner, group) -> whether the owner is the group's only member."""
    if status.st_uid not in (os.geteuid(), 0):
        return f"belongs to {user_name(status.st_uid)}, neither to you nor to root"
    if stat.S_ISDIR(status.st_mode) and status.st_mode & _STICKY_DOOR:
        return ""
    if status.st_mode & 0o002:
        return "can be written by everyone"
    if not status.st_mode & 0o020 or status.st_gid == 0:
        return ""
    known = {} if harmless is None else harmless
    key = (status.st_uid, status.st_gid)
    if key not in known:
        known[key] = _alone_in_group(*key)
    return "" if known[key] else "can be written by its group"


def _alone_in_group(uid: int, gid: int) -> bool:
    """Return whether it is the user's private group, as most systems make one: of the same name, without others."""
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return False
    name = user_name(uid)
    return group.gr_name == name and set(group.gr_mem) <= {name}


def way_to(path: Path) -> Iterator[Path]:
    yield from reversed(path.absolute().parents)


INSIDE = Path(__file__).resolve().parent / "inside"
"""Our files that run in EasyBuild's own Python."""

_FORM = "envmgr easybuild 1"
_KINDS = (".py", ".eb")
# Framework and easyblocks both bring this file, each with its own comments, and what is installed last wins. So both
# are in the sum, as their lists of files (RECORD) have them.
_SHARED = "easybuild/__init__.py"


@dataclass(frozen=True, slots=True)
class Places:
    """The places of an environment's EasyBuild: `packages` is its site-packages; `home` has easyconfigs and scripts."""

    packages: Path
    home: Path

    @property
    def folders(self) -> tuple[Path, ...]:
        """All that EasyBuild runs, and its easyconfigs."""
        return tuple(dict.fromkeys((self.packages / "easybuild", self.home / "easybuild")))

    def version(self, part: str) -> str:
        """Return that of `framework`, `easyblocks` or `easyconfigs`; empty if it is there twice or not at all."""
        found = [p.name for p in self.packages.glob(f"easybuild_{part}-*.dist-info")]
        return found[0].removeprefix(f"easybuild_{part}-").removesuffix(".dist-info") if len(found) == 1 else ""


def contents_sum(places: Places) -> str:
    """Return what EasyBuild is as one sha256: the same wherever it is installed, by pip or uv, with bytecode or not.

    It is taken over this text, in UTF-8, with a line for each `.py` and `.eb` file below the folders `easybuild` of an
    environment (that of the packages, that of easyconfigs and scripts), sorted by path:

        envmgr easybuild 1
        easybuild/base/__init__.py <sha256>
        easybuild/easyconfigs/z/zlib/zlib-1.3.1.eb <sha256>

    What the three packages have elsewhere (`test`, `contrib`) never runs, and does not count. Raises OSError for what
    is not there, or cannot be read.
    """
    lines = [_FORM]
    for name, path in sorted(_files(places)):
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - ten thousand of them
            digests = {sha256_bytes(file.read())}
        if name == _SHARED:
            digests.update(_declared(places))
        lines += [f"{name} {digest}" for digest in sorted(digests)]
    return sha256_bytes("".join(f"{line}\n" for line in lines).encode(errors="surrogateescape"))


def _files(places: Places) -> Iterator[tuple[str, str]]:
    """Yield names relative to the parent of the folder `easybuild`, and paths."""
    for root in places.folders:
        above = len(str(root.parent)) + 1
        # By default `os.walk` skips a folder that it cannot read, and the sum would lack its files.
        for folder, _, files in os.walk(root, onerror=_raise):
            yield from ((f"{folder[above:]}/{name}", f"{folder}/{name}") for name in files if name.endswith(_KINDS))


def _raise(error: OSError) -> None:
    raise error


def _declared(places: Places) -> Iterator[str]:
    """Yield the sha256 that framework and easyblocks declare of the file that both bring."""
    for part in ("framework", "easyblocks"):
        for record in places.packages.glob(f"easybuild_{part}-*.dist-info/RECORD"):
            with record.open(newline="", encoding="utf-8") as file:
                for path, digest, *_ in csv.reader(file):
                    if path == _SHARED and digest.startswith("sha256="):
                        encoded = digest.removeprefix("sha256=")
                        yield base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).hex()


@dataclass(frozen=True, slots=True)
class EasyBuild:
    """An EasyBuild: its places, the Python that runs it, and `lmod_command`, which its `$LMOD_CMD` needs."""

    python: Path
    places: Places
    version: str
    lmod_command: Path

    @property
    def easyconfigs(self) -> Path:
        """The easyconfigs that come with it."""
        return self.places.home / "easybuild" / "easyconfigs"

    def argv(self, program: str | Path, *arguments: str | Path) -> list[str | Path]:
        """Return the command that runs a module of EasyBuild, or a file of envmgr, with nothing else to import."""
        # In order: no site-packages, none of the user's packages, no folder of the script among the places of modules.
        return [self.python, "-S", "-s", "-P", INSIDE / "start.py", self.places.packages, program, *arguments]

    def require(self, framework: str, easyblocks: str) -> None:
        """Raise EnvmgrError `easybuild-differs` unless it has these versions."""
        for part, wanted in (("framework", framework), ("easyblocks", easyblocks)):
            if (found := self.places.version(part)) != wanted:
                raise EnvmgrError(
                    "easybuild-differs",
                    f"the lock wants {part} {wanted} of EasyBuild, its environment has another",
                    context=[str(self.places.home), f"{part} {found}" if found else f"no {part} is installed in it"],
                    hint="lock the entry again; if that environment was changed, install it again",
                )

    def environment(self, **extra: str) -> dict[str, str]:
        """Return a scrubbed environment: no loaded modules, no compiler flags, no user's configuration."""
        return clean_env(
            EB_SCRIPT_PATH=str(self.places.home / "bin" / "eb"),
            LMOD_CMD=str(self.lmod_command),
            PYTHONNOUSERSITE="1",
            PYTHONUNBUFFERED="1",
            PYTHONDONTWRITEBYTECODE="1",
            XDG_CONFIG_DIRS="/nonexistent",
            **extra,
        )


def own_places() -> Places:
    """Return the places of the EasyBuild in envmgr's own environment."""
    return Places(Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("data")))


def why_not_own(version: str, wanted: str | None, places: Places | None = None) -> str:
    """Return why the caller may not run EasyBuild `version` of envmgr's own environment (`places`); empty if it may.

    `wanted` is the sha256 that a lock has of EasyBuild's contents, None if no lock asks. Root and the caller must own
    all of it, and no other user may write to it, or to a folder above: it runs as the caller.
    """
    places = places or own_places()
    try:
        if why := _why_another(places, version) or _why_unsafe(places):
            return why
        if wanted is not None and (found := contents_sum(places)) != wanted:
            return f"its sha256 is {found}, the lock says {wanted}"
    except PermissionError as error:
        return f"{user_name(os.geteuid())} cannot read {error.filename}"
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return ""


def _why_another(places: Places, version: str) -> str:
    os.scandir(places.packages).close()  # a glob would find nothing in what cannot be read
    for part in ("framework", "easyblocks", "easyconfigs"):
        if (found := places.version(part)) != version:
            return f"it has {f'easybuild-{part} {found}' if found else f'no easybuild-{part}'}"
    return ""


def _why_unsafe(places: Places) -> str:
    for place in (Path(sys.executable), *places.folders):
        if why := fault_on_the_way(place):
            return why
    return next((why for folder in places.folders if (why := fault_below(folder))), "")


def main() -> None:
    """Answer on a node, before builds are sent there: write which node it is and why not, or nothing.

    The arguments are the version and the sha256.
    """
    if why := why_not_own(sys.argv[1], sys.argv[2]):
        sys.stdout.write(f"{socket.gethostname()}: {why}\n")


if __name__ == "__main__":
    main()
