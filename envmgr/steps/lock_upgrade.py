"""The packages that `envmgr lock --upgrade` moves, as the locks of entries name them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from envmgr.backends import Backend, LockOptions, locked_packages
from envmgr.catalog.entries import CatalogEntry
from envmgr.catalog.names import nearest
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.steps.lock_checks import reading_entry
from envmgr.wording import did_you_mean


def having(found: Sequence[CatalogEntry], upgrade: Sequence[str], site: Site) -> list[CatalogEntry]:
    """Return the entries whose locks have one of the packages, and those that cannot be read, which is their error.

    Raise InputError `lock-lacks` if there are none.
    """
    known = set[str]()

    def has(entry: CatalogEntry) -> bool:
        with suppress(EnvmgrError), reading_entry(entry.entry):
            packages = locked_packages(entry.entry, entry.recipe(), entry.folder, site)
            known.update(packages)
            return any(_in_lock(packages, upgrade).values())
        return True

    if kept := [entry for entry in found if has(entry)]:
        return kept
    raise _lacks(f"no lock of your entries has `{upgrade[0]}`", upgrade[0], known, "list")


def _in_lock(packages: Collection[str], upgrade: Sequence[str]) -> dict[str, str]:
    """Map each package that is asked for to its name in a lock: `PyYAML` is `pyyaml` there. Empty if it has none."""
    from packaging.utils import canonicalize_name

    alike = {canonicalize_name(name): name for name in packages}
    return {name: name if name in packages else alike.get(canonicalize_name(name), "") for name in upgrade}


def _lacks(message: str, package: str, known: Collection[str], shows: str) -> InputError:
    hint = did_you_mean(nearest(package, known), f"`envmgr {shows}` shows what there is")
    return InputError("lock-lacks", message, hint=hint)


def names_in_lock(
    entry: CatalogEntry, backend: Backend, old: Mapping[str, str], options: LockOptions, *, each: bool
) -> LockOptions:
    """Return the options with the names that the entry's lock has for the packages to move; with `each`, it has all.

    `old` is empty for a lock that is not there or cannot be read, which is the backend's error. Raise InputError.
    """
    hint = ""
    if not backend.upgrades:
        hint = f"`envmgr lock {entry.entry}` locks all of it again; a version that recipe.yaml names is changed there"
    elif options.solver not in (None, *backend.solvers[:1]):
        hint = "leave --solver out"
    if hint:
        who = options.solver or f"the backend {backend.name}"
        raise InputError("upgrade-whole", f"{who} cannot move one package and keep the others", hint=hint)
    names = _in_lock(old, options.upgrade)
    if old and each and (lacking := [asked for asked, name in names.items() if not name]):
        raise _lacks(f"the lock of {entry.entry} has no `{lacking[0]}`", lacking[0], old, f"list {entry.entry}")
    return replace(options, upgrade=tuple(filter(None, names.values())) or options.upgrade)
