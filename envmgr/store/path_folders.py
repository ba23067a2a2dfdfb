"""The folders of an install of packages that go on the lists of a shell."""

from __future__ import annotations

from pathlib import Path

from envmgr.modules.spec import EnvOp

# Folder of an install -> the list it belongs on. Never LD_LIBRARY_PATH, PYTHONPATH, PYTHONHOME (invariant 7): packages
# find their own libraries by RPATH.
_PATH_FOLDERS = (
    ("bin", "PATH"),
    ("sbin", "PATH"),
    ("share/man", "MANPATH"),
    ("man", "MANPATH"),
    ("lib/pkgconfig", "PKG_CONFIG_PATH"),
    ("share/pkgconfig", "PKG_CONFIG_PATH"),
    ("share/aclocal", "ACLOCAL_PATH"),
)


def path_environment(root: Path) -> tuple[EnvOp, ...]:
    """Return the changes in load order, so that the first row of the table is the first of its list."""
    found = [
        EnvOp(kind="prepend", name=variable, value=str(root / folder))
        for folder, variable in reversed(_PATH_FOLDERS)
        if (root / folder).is_dir()
    ]
    if (root / "include").is_dir() or (root / "lib/cmake").is_dir():
        found.append(EnvOp(kind="prepend", name="CMAKE_PREFIX_PATH", value=str(root)))
    return tuple(found)
