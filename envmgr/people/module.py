"""The module `user/NAME`: flat, as that of the entry below, with the environment's own folder first."""

from __future__ import annotations

from pathlib import Path

from envmgr.catalog.names import variable_name
from envmgr.catalog.site import Site
from envmgr.modules.render import UserNote, render_module
from envmgr.modules.spec import EnvOp, ModuleSpec
from envmgr.modules.statements import ModulePolicies, has_root
from envmgr.people.base import BaseEntry
from envmgr.people.lock import UserLock
from envmgr.store.prefix import Install, Prefix
from envmgr.system.files import shipped


def module_text(install: Install, lock: UserLock, base: BaseEntry, site: Site, reported: Path) -> str:
    """Return the modulefile. It names only paths of the store, so that it loads in every generation that keeps them.

    `reported` is a file of the user's whose time says when a load has last reported a newer entry.
    """
    packages = install.path / "lib" / f"python{base.minor}" / "site-packages"
    note = UserNote(
        name=install.entry.version,
        entry=base.entry,
        root=base.spec.root,
        current=str(Prefix(site.prefix).current),
        reported=str(reported),
        packages=str(packages),
        known=tuple(sorted(path.name for path in packages.glob("*.dist-info"))),
    )
    policies = ModulePolicies.from_site(site)
    return render_module(
        user_spec(install, lock, base, policies, programs=install.path / "bin"),
        base.families,
        generation=base.number,
        policies=policies,
        templates=shipped("modulefiles"),
        note=note,
    )


def user_spec(
    install: Install, lock: UserLock, base: BaseEntry, policies: ModulePolicies, *, programs: Path
) -> ModuleSpec:
    """Return the module of an environment, which puts its `programs` first in PATH."""
    stem = variable_name(base.spec.name)
    root = [EnvOp(kind="set", name=f"{stem}_ROOT", value=base.spec.root)] if has_root(stem) else []
    told: tuple[EnvOp, ...] = (
        *root,
        EnvOp(kind="set", name=f"ENVMGR_{stem}_DIGEST", value=base.spec.digest),
        EnvOp(kind="prepend", name="PATH", value=str(programs)),
    )
    if not policies.user_site:
        told = (*told, EnvOp(kind="set", name="PYTHONNOUSERSITE", value="1"))
    name = install.entry.version
    own = tuple(f"{each}/{version}" for each, version in lock.versions.items())
    return base.spec.model_copy(
        update={
            "name": install.entry.name,
            "version": name,
            "root": str(install.path),
            "digest": install.digest,
            "description": f"packages of a user's own on {base.entry}: {', '.join(lock.requirements) or 'none'}",
            "help": f"`envmgr user show {name}` lists its packages; `envmgr user add {name} PACKAGE` adds one.",
            "category": "",
            "depends": (),
            "environment": (*base.environment, *told),
            "extensions": own,
            "packages": {**base.spec.packages, **lock.versions},
            "python": False,  # its help would speak of virtual environments
            "own_python": True,
            "pip": None,
            "tests": (),
            "default": False,
            "hidden": False,
            "deprecated": None,
            "stands_on": tuple(map(str, base.installs)),
        }
    )
