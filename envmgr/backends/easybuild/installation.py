"""An EasyBuild that is installed: where, its sha256, how its process is started, and whether envmgr's own may run.

It always runs as a process of its own: its start-up takes a second, and its licence is GPL-2.0-only. envmgr imports
nothing of it.
"""

from __future__ import annotations

import base64
import csv
import os
import socket
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envmgr.backends.easybuild.trust import fault_below, fault_on_the_way
from envmgr.errors import EnvmgrError
from envmgr.system.files import sha256_bytes
from envmgr.system.run import clean_env
from envmgr.system.usernames import user_name

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
