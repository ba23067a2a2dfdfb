"""Locks sources: the newest that fits, the wheels that build it, and what its wheel will need.

Its authors' code runs for that (hooks of PEP 517), as for a build: as the build user, without a network, over the entry's Python
where that is built, else over one of this host with the same minor version.
"""

from __future__ import annotations

import os
import platform
import stat
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.pylock import Pylock
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from pydantic import ValidationError

from envmgr.backends.wheels.base import SYSTEM_PYTHONS, Base
from envmgr.backends.wheels.input import Wanted
from envmgr.backends.wheels.source.calling import Answer, Source, call_child
from envmgr.backends.wheels.source.shut import Shut, say_who, shut_off
from envmgr.catalog.names import catalog_of
from envmgr.catalog.site import Site
from envmgr.catalog.target import read_target
from envmgr.downloads import Download
from envmgr.downloads.client import bring
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.system.run import Runner
from envmgr.system.safe_paths import change_tree
from envmgr.system.scratch import scratch_folder
from envmgr.system.untrusted_files import BESIDE, copy_file
from envmgr.system.users import Account, runs_for_root
from envmgr.wheels.failures import failure
from envmgr.wheels.folders import wheel_cache
from envmgr.wheels.foreign import Metadata
from envmgr.wheels.lock import LockedFile, LockedPatch, LockedSdist, LockedWheel
from envmgr.wheels.metadata import requires_in
from envmgr.wheels.resolve import Asking, choose


def lock_sources(
    wanted: Wanted, base: Base, recipe: Path, asking: Asking, site: Site, runner: Runner, reporter: Reporter
) -> tuple[LockedSdist, ...]:
    """One for each name of `wanted.build`. `recipe` is the folder in which the patches lie.

    From here on `asking` knows what they need: uv resolves the rest beside them, and builds nothing.

    Raises:
        EnvmgrError: `lock-needs-python`, `build-network`, as a resolution fails, as a download fails, and see `call_child`.
    """
    account = runs_for_root(site.build_user, site.prefix, mask=site.policies.mask)
    say_who(reporter, wanted.build, account)
    locker = _Locker(wanted, recipe, asking, site, runner, reporter, account, shut_off(site, runner, reporter, account))
    locked = [locker.lock(name, *_python(base, wanted, site)) for name in wanted.build]
    asking.know([told for _, told in locked])
    return tuple(sdist for sdist, _ in locked)


@dataclass(frozen=True, slots=True)
class _Locker:
    wanted: Wanted
    recipe: Path
    asking: Asking
    site: Site
    runner: Runner
    reporter: Reporter
    account: Account | None
    shut: Shut

    def lock(self, name: str, installed: Path | None, programs: Path) -> tuple[LockedSdist, Metadata]:
        """With the metadata of its wheel."""
        found, url = self._find(name)
        patches = [patch for patch in self.wanted.patches if patch.package == name]
        with self._folder() as work:
            files = work / "files"
            sdist = self._fetch([(found, url)], files, name)[0]
            for patch in patches:
                copy_file(self.recipe / patch.file, files / patch.file, BESIDE, tree=catalog_of(self.recipe))
            source = Source(
                name=name,
                version=found.version,
                sdist=sdist,
                patches=[files / patch.file for patch in patches],
                minor=".".join(self.asking.python.split(".")[:2]),
                base=installed,
                programs=programs,
            )
            rows = self._ask("system", source, work).requires
            wheels = self._wheels(rows)
            paths = self._fetch(wheels, files, name)
            more = self._ask("requires", source, work, paths).requires
            if more:
                wheels = self._wheels([*rows, *more])
                paths = self._fetch(wheels, files, name)
            told = self._ask("metadata", source, work, paths).metadata
            built_with = [
                wheel.model_copy(update={"requires": _requires(path)})
                for (wheel, _), path in zip(wheels, paths, strict=True)
            ]
        if told is None or told.name != name or Version(told.version) != Version(found.version):
            raise EnvmgrError(
                "sdist-invalid",
                f"{found.file} says that it is {'nothing' if told is None else f'{told.name} {told.version}'}",
                hint="a patch (`patches` in the recipe) can say its version where its build asks git for it",
            )
        locked = found.model_copy(
            update={
                "requires": told.requires,
                "asks": tuple(dict.fromkeys([*rows, *more])),
                "build": tuple(sorted(built_with, key=lambda wheel: wheel.name)),
                "patches": tuple(LockedPatch(file=patch.file, sha256=patch.sha256) for patch in patches),
            }
        )
        return locked, told

    def _find(self, name: str) -> tuple[LockedSdist, str]:
        """The newest source that fits what the recipe says of it, and its URL."""
        rows = [row for row in self.wanted.requirements if canonicalize_name(Requirement(row).name) == name] or [name]
        words = ["--no-deps", "--only-binary", ":all:", "--no-binary", name]
        text = self.asking.compile([*words, "--format", "pylock.toml"], rows)
        package = next(p for p in Pylock.from_dict(tomllib.loads(text)).packages if canonicalize_name(p.name) == name)
        sdist = package.sdist
        if sdist is None:
            raise EnvmgrError("unsolvable", f"no index has a source of {name} {package.version}")
        if "sha256" not in sdist.hashes:
            raise EnvmgrError(
                "wheel-unhashed",
                f"the index tells no sha256 of {sdist.filename}",
                hint="ask an index that has hashes, or a folder",
            )
        try:
            locked = LockedSdist(
                name=name,
                version=str(package.version),
                file=sdist.filename,
                sha256=sdist.hashes["sha256"],
                size=sdist.size,
                index=self.asking.origins(rows, words)(name),
                build=(),
                uploaded="" if sdist.upload_time is None else sdist.upload_time.isoformat(),
            )
        except ValidationError:
            raise EnvmgrError("sdist-invalid", f"{sdist.filename} is no archive that is unpacked here") from None
        self.asking.refuse_unhashed({name: (locked.file, locked.index)})
        return locked, str(sdist.url or Path(str(sdist.path)).absolute().as_uri())

    def _wheels(self, rows: Sequence[str]) -> list[tuple[LockedWheel, str]]:
        """What builds it, under the constraints of the recipe, with the URLs."""
        if not rows:
            return []
        words = ["--only-binary", ":all:"]
        text = self.asking.compile([*words, "--format", "pylock.toml"], rows)
        origins = self.asking.origins(rows, words)
        found = list(choose(text, self.asking.python, self.wanted.platform))
        self.asking.refuse_unhashed({wheel.name: (wheel.file, origins(wheel.name)) for wheel, _ in found})
        return [(wheel.model_copy(update={"index": origins(wheel.name)}), url) for wheel, url in found]

    def _fetch(self, files: Sequence[tuple[LockedFile, str]], folder: Path, label: str) -> list[Path]:
        """Checked; what the prefix has is copied from there. `policies.min_free` bytes stay free where temporary files go, too."""
        cache = wheel_cache(Prefix(self.site.prefix))
        given = {file.sha256: path for file, _ in files if (path := cache / file.sha256 / file.file).is_file()}
        downloads = [Download(file.file, file.sha256, (url,), file.size) for file, url in files]
        bring(
            downloads,
            folder,
            self.site.policies,
            self.runner,
            self.reporter,
            label=label,
            failure=_failure,
            given=given,
        )
        return [download.path(folder) for download in downloads]

    def _ask(self, ask: str, source: Source, folder: Path, wheels: Sequence[Path] = ()) -> Answer:
        work = folder / ask
        work.mkdir()
        if self.account is not None:
            _give(folder, self.account)
        return call_child(ask, source, work, self.shut, self.runner, wheels=wheels, account=self.account)

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        with scratch_folder("sdists", self.account) as folder:
            (folder / "files").mkdir()
            yield folder


def _failure(event: Mapping[str, Any], request: Mapping[str, Any]) -> EnvmgrError:
    """As `failure`; where there is no room, it is not the prefix that lacks it."""
    error = failure(event, request)
    if error.reference == "disk-full":
        error.hint = (
            "name a folder with more room in $TMPDIR, which the build user may enter, and run the same command again"
        )
    return error


def _requires(wheel: Path) -> tuple[str, ...] | None:
    """As a sidecar says it; None for rows that only old tools read."""
    try:
        return requires_in(wheel)
    except ValueError:
        return None


def _give(folder: Path, account: Account) -> None:
    """What of the tree is root's own: that user has written in it since the last time, and may write now. A second name of a file may be
    that of one elsewhere.
    """

    def ours(status: os.stat_result) -> bool:
        return status.st_uid == os.geteuid() and (stat.S_ISDIR(status.st_mode) or status.st_nlink == 1)

    change_tree(folder, owner=account.uid, group=account.gid, only=ours)


def _python(base: Base, wanted: Wanted, site: Site) -> tuple[Path | None, Path]:
    """The install of the Python, or None and the folder of one of this host. EnvmgrError `lock-needs-python`."""
    if (wants := wanted.platform.partition("-")[0]) != platform.machine():
        raise EnvmgrError(
            "lock-needs-python",
            f"{', '.join(wanted.build)} cannot be locked here: this host is {platform.machine()}, the recipe's platform {wants}",
            hint="its build is asked what it needs: lock it on a host of that kind",
        )
    if base.entry is not None:
        install = base.entry.lock.items(site, read_target(site.cpu_level))[-1].install
        if install.exists():
            return install.path, SYSTEM_PYTHONS
    for programs in (SYSTEM_PYTHONS, Path(sys.base_prefix) / "bin"):
        if (programs / f"python{base.minor}").is_file():
            return None, programs
    hint = (
        f"`envmgr build --no-publish {base.name}` makes it"
        if base.entry
        else f"install python{base.minor} on this host"
    )
    raise EnvmgrError(
        "lock-needs-python",
        f"there is no Python {base.minor} here to ask the build of {', '.join(wanted.build)} what it needs",
        context=f"looked for the install of {base.name}, {SYSTEM_PYTHONS} and {sys.base_prefix}",
        hint=hint,
    )
