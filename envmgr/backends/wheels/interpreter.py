"""The Python of an install: a real prefix, made of links to the base's; or, on the operating system's, a virtual environment.

A virtual environment on top of an install sees its packages only where that is a real prefix (invariant 7).
Source: CPython, Modules/getpath.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path

_OWN = frozenset({"site-packages", "EXTERNALLY-MANAGED"})


class NoPython(Exception):  # noqa: N818 - what is the matter
    """There is no Python of that version to stand on."""


def make_interpreter(staging: Path, base: Path, minor: str) -> None:
    """Into `staging`, over the Python `minor` (3.11) of the install at `base`. Raises NoPython; OSError."""
    program = next((p for p in (base / "bin" / f"python{minor}", base / "bin" / "python3") if p.is_file()), None)
    library = base / "lib" / f"python{minor}"
    if program is None or not (library / "os.py").is_file():
        raise NoPython(f"{base} has no Python {minor}: neither bin/python{minor} nor lib/python{minor}/os.py")
    _programs(staging, minor)
    own = staging / "bin" / f"python{minor}"
    shutil.copyfile(program, own)
    own.chmod(0o755)
    folder = staging / "lib" / f"python{minor}"
    (folder / "site-packages").mkdir(parents=True, exist_ok=True)
    for path in sorted(library.iterdir()):
        if path.name not in _OWN:
            (folder / path.name).symlink_to(path)
    _link(staging / "include" / f"python{minor}", base / "include" / f"python{minor}")
    for shared in sorted((base / "lib").glob(f"libpython{minor}*.so*")):
        _link(staging / "lib" / shared.name, shared)


def make_environment(staging: Path, minor: str, programs: Path) -> None:
    """Into `staging`, a virtual environment over `programs/python<minor>`. Raises NoPython; OSError."""
    program = programs / f"python{minor}"
    if not program.is_file():
        raise NoPython(f"this host has no {program}")
    _programs(staging, minor)
    (staging / "bin" / f"python{minor}").symlink_to(program)
    (staging / "lib" / f"python{minor}" / "site-packages").mkdir(parents=True, exist_ok=True)
    (staging / "pyvenv.cfg").write_text(
        f"home = {programs}\ninclude-system-site-packages = false\nversion = {minor}\n", encoding="utf-8"
    )


def _programs(staging: Path, minor: str) -> None:
    (staging / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("python", "python3"):
        (staging / "bin" / name).symlink_to(f"python{minor}")


def _link(place: Path, target: Path) -> None:
    """A folder that packages have put files into stays theirs."""
    if target.exists() and not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
