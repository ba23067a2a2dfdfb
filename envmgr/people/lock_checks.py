"""Checks of a user environment's lock before anything is installed by it: somebody else may have written it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.utils import parse_wheel_filename

from envmgr.catalog.site import Site
from envmgr.errors import InputError
from envmgr.people.base import Base
from envmgr.people.lock import UserLock
from envmgr.people.solve import known_packages, question_of
from envmgr.people.wishes import unchanged
from envmgr.wheels.answers import closure_faults, needed_of, require_hashes, require_own_wheels
from envmgr.wheels.locked import Distribution
from envmgr.wheels.metadata import distributions_in
from envmgr.wheels.target import target_tags

_MOST = 20


def require_sound(lock: UserLock, base: Base, site: Site, path: Path) -> None:
    """Refuse a lock that says other than its requirements ask for on the entry, or names files of no index of the site.

    Raises:
        InputError: `lock-invalid`, `lock-foreign`, `hash-differs`.
    """
    if faults := [*_faults_of_files(lock, base, site)]:
        raise _invalid(path, faults)
    wanted = question_of(unchanged(lock), site)
    require_own_wheels(lock.wheels.files, wanted.indexes, site, path)
    require_hashes(wanted, lock.wheels.files, base.version, path)
    if faults := [*_faults_of_needs(lock, base, site, _said(lock))]:
        raise _invalid(path, faults)


def require_files_agree(lock: UserLock, base: Base, site: Site, files: Mapping[str, Path]) -> None:
    """Refuse wheels that are not what the lock says, by their METADATA; `files` maps the names of packages to them.

    Raises:
        InputError: `files-differ`; EnvmgrError: `wheel-invalid`.
    """
    found = distributions_in(_said(lock), files)
    if faults := [*_faults_of_needs(lock, base, site, found)]:
        raise InputError(
            "files-differ",
            f"the files for {lock.on} need other packages than the lock has; nothing was installed",
            context=faults[:_MOST],
            hint="the index or the lock says other than the files do: `envmgr user create NAME --on "
            f"{lock.on} PACKAGE` chooses again, and another version of the package may do",
        )


def _said(lock: UserLock) -> dict[str, Distribution]:
    return {wheel.name: Distribution(wheel.version, wheel.requires) for wheel in lock.wheels.wheels}


def _faults_of_files(lock: UserLock, base: Base, site: Site) -> Iterator[str]:
    wheels = lock.wheels.wheels
    if lock.wheels.python != base.version:
        yield f"it is for Python {lock.wheels.python}, and {base.entry} has {base.version}"
    yield from (
        f"{name} is in it {times} times" for name, times in Counter(w.name for w in wheels).items() if times > 1
    )
    tags = frozenset(target_tags(base.version, question_of(unchanged(lock), site).platform))
    for wheel in wheels:
        if not wheel.named_rightly:
            yield f"{wheel.file} is no file of {wheel.name} {wheel.version}"
        elif tags.isdisjoint(parse_wheel_filename(wheel.file)[3]):
            yield f"{wheel.file} is not for Python {base.minor} on this host"
        if wheel.name in base.packages and wheel.name not in lock.replaced:
            yield f"{wheel.name} would take the place of that of {base.entry}, and the lock does not say so"


def _faults_of_needs(lock: UserLock, base: Base, site: Site, parts: Mapping[str, Distribution]) -> Iterator[str]:
    wanted = question_of(unchanged(lock), site)
    known = known_packages(base, lock.replaced)
    # A package of the entry counts only by what its extras need, where something asks for these.
    extras = {each.name: Distribution(each.version, each.requires) for each in known if each.extras}
    needed = needed_of(wanted, {**extras, **parts}, base.version)
    asked = {name: each for name, each in extras.items() if name in needed}
    present = {each.name: each.version for each in known}
    for fault in closure_faults(wanted, {**asked, **parts}, base.version, present=present, asker="what was asked for"):
        yield fault.text


def _invalid(path: Path, faults: list[str]) -> InputError:
    return InputError(
        "lock-invalid",
        f"{path} is no lock that envmgr would write; nothing was installed",
        context=faults[:_MOST],
        hint="ask its author to export it again: `envmgr user export NAME`",
    )
