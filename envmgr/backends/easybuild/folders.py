"""EasyBuild's own folders below the prefix, and its own files of an install."""

from __future__ import annotations

from pathlib import Path

from envmgr.store.prefix import Install, Prefix


def modules_folder(prefix: Prefix) -> Path:
    """EasyBuild's own modules, private, named as their installs are."""
    return prefix.root / "easybuild" / "modules"


def tools_folder(prefix: Prefix) -> Path:
    """EasyBuild itself, by version."""
    return prefix.root / "easybuild" / "tools"


def locks_folder(prefix: Prefix) -> Path:
    """EasyBuild's own locks."""
    return prefix.jobs / "easybuild-locks"


def module_name(install: Install) -> str:
    """`<name>/<version>-<digest8>`: what EasyBuild's own module of it is called."""
    return f"{install.entry.name}/{install.label}"


def module_file(install: Install) -> Path:
    """EasyBuild's own module of it."""
    return modules_folder(install.prefix) / f"{module_name(install)}.lua"


def lock_of(install: Install) -> Path:
    """EasyBuild names its lock by the install's path. Source: easybuild-framework, `create_lock`."""
    return locks_folder(install.prefix) / (str(install.path).replace("/", "_") + ".lock")
