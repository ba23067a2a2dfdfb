"""Resolution of what an entry lacks for a user's requirements: only the difference, for the site's nodes.

What the entry has is given to uv as wheels of only metadata, with versions that may not change: no index is asked for
any of it, and nothing of it comes a second time.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.spec import ModuleSpec
from envmgr.people.base import BaseEntry, named_in
from envmgr.people.lock import UserLock
from envmgr.report import Reporter
from envmgr.system.run import Runner
from envmgr.wheels.metadata import Metadata
from envmgr.wheels.requirements import Question, read_requirement
from envmgr.wheels.resolve import resolve_beside
from envmgr.wheels.settings import PUBLIC, indexes_of
from envmgr.wheels.target import marker_holds

_GLIBC = 28  # of the platform that recipes have by default; a host with an older one lowers it
_EXTRA = re.compile(r"""\bextra\s*==\s*["']([A-Za-z0-9._-]+)["']""")


@dataclass(frozen=True, slots=True)
class Wish:
    """A user's wish: requirements as checked rows, packages of the entry to replace, and folders."""

    requirements: tuple[str, ...]
    replaced: tuple[str, ...] = ()
    editable: tuple[str, ...] = ()


def solve(
    wish: Wish,
    base: BaseEntry,
    others: Callable[[], Mapping[str, ModuleSpec]],
    site: Site,
    runner: Runner,
    reporter: Reporter,
    kept: Mapping[str, str] | None = None,
) -> UserLock:
    """Return the lock of what is missing beside the entry. `others` returns the modules that are published, for the
    hint of a clash; `kept` are versions that stay where that can be.

    Raises:
        InputError: `not-in-base`, a replaced package that the entry does not have; `not-replaceable`; `clash`, with both
            sides.
        EnvmgrError: as `resolve_beside`.
    """
    replaced = {canonicalize_name(name) for name in wish.replaced}
    if strange := sorted(replaced - base.packages.keys()):
        raise InputError("not-in-base", f"{base.entry} has no package {strange[0]}, so there is none to replace")
    if replaced and any(op.name == "PYTHONPATH" for op in base.environment):
        raise InputError(
            "not-replaceable",
            f"{min(replaced)} of {base.entry} cannot be replaced: its module names its packages in PYTHONPATH",
            context="Python looks there before it looks into your environment",
            hint="another entry that has the version you need; `envmgr list` shows all",
        )
    present = known_packages(base, replaced)
    wanted = question_of(wish, site)
    stay = {name: version for name, version in (kept or {}).items() if name not in replaced}
    asked = _asked(wish.requirements)
    # First all of them, then those that nobody asks for by name, then none.
    for held in (stay, {name: version for name, version in stay.items() if name not in asked}, {}):
        try:
            asks = wanted.held_to(held)
            wheels = resolve_beside(present, asks, base.version, site, runner, reporter, newest=False).lock
            break
        except EnvmgrError as error:
            if error.reference != "unsolvable":
                raise
            if not held:
                raise _clash(error, wish, base, others()) from None
    return UserLock(
        on=base.entry,
        base=base.spec.digest,
        requirements=wish.requirements,
        replaced=tuple(sorted(replaced)),
        editable=wish.editable,
        wheels=wheels,
    )


def question_of(wish: Wish, site: Site) -> Question:
    """Return what the indexes of the site are asked, for this host; the public one comes last."""
    replaced = {canonicalize_name(name) for name in wish.replaced}
    return Question(
        requirements=(*wish.requirements, *sorted(replaced - _asked(wish.requirements))),
        indexes=(*(name for name in indexes_of(site) if name != PUBLIC), PUBLIC),
        platform=_platform(),
    )


def known_packages(base: BaseEntry, replaced: Collection[str]) -> list[Metadata]:
    """Return what the entry has and keeps. What these need is there; what their extras need may be missing."""
    return [
        Metadata(name=name, version=package.version, **_extras_of(package.requires))
        for name, package in base.packages.items()
        if name not in replaced
    ]


def _extras_of(rows: Iterable[str]) -> dict[str, tuple[str, ...]]:
    requires, extras = [], dict[str, None]()
    for row in rows:
        with suppress(ValueError):
            read = read_requirement(row)
            if named := _EXTRA.findall(str(read.marker or "")):
                requires.append(str(read))
                extras.update(dict.fromkeys(named))
    return {"requires": tuple(requires), "extras": tuple(extras)}


def _platform() -> str:
    minor = platform.libc_ver()[1].partition(".")[2]
    return f"{platform.machine()}-manylinux_2_{min(_GLIBC, int(minor) if minor.isdecimal() else _GLIBC)}"


def _asked(rows: Iterable[str]) -> set[str]:
    return {canonicalize_name(Requirement(row).name) for row in rows}


def _clash(error: EnvmgrError, wish: Wish, base: BaseEntry, others: Mapping[str, ModuleSpec]) -> EnvmgrError:
    """Return the error that names both sides and the ways out, where the entry is one of them."""
    held = named_in(error.context, base.packages)
    ways = []
    for name in held[:2]:
        package = base.packages[name]
        if elsewhere := [*_with_another(name, package.version, base.entry, others)]:
            ways.append(f"another entry with another {name}: {', '.join(elsewhere[:4])}")
        ways.append(f"`--replace {name}` takes a copy of your own in the place of {name} {package.version}")
    ways.append("another version of what you ask for")
    sides = [f"{base.entry} has {name} {base.packages[name].version}, which stays" for name in held]
    asked = f"asked for: {', '.join(wish.requirements)}"
    error.context = (asked, *sides, *(line for line in error.context if not line.startswith(("asked:", "index "))))
    if not held:
        error.hint = (
            "another version of what you ask for; what has no wheel can be built by the administrators, as an entry"
        )
        return error
    return InputError(
        "clash", f"what you ask for does not fit to {base.entry}", context=error.context, hint="; or ".join(ways)
    )


def _with_another(name: str, version: str, entry: str, others: Mapping[str, ModuleSpec]) -> Iterator[str]:
    """Yield the entries that have another version of a package."""
    for other, spec in others.items():
        found = {canonicalize_name(package): text.split(" ")[0] for package, text in spec.packages.items()}
        if other != entry and found.get(canonicalize_name(name), version) != version:
            yield f"{other} ({name} {found[canonicalize_name(name)]})"


def may_break(lock: UserLock, base: BaseEntry) -> list[str]:
    """Return what of the entry may break by the packages that the environment has in the place of its own."""
    versions = lock.versions
    found = []
    for name, package in base.packages.items():
        if name in lock.replaced:
            continue
        for need in _needs(package.requires, base.version, lock.wheels.platform):
            there = versions.get(canonicalize_name(need.name))
            if there is not None and not need.specifier.contains(there, prereleases=True):
                found.append(f"{name} {package.version} needs {need.name}{need.specifier}, and gets {there}")
    return found


def _needs(rows: Sequence[str], python: str, target: str) -> Iterator[Requirement]:
    for row in rows:
        try:
            need = Requirement(row)
        except InvalidRequirement:
            continue
        if marker_holds(need.marker, python, target):
            yield need
