"""The worker that installs wheels: unpacks them, makes the interpreter over another Python, compiles.

How it is spoken to: system/worker.py. Events: `total`, `linked`, `compiling`, `compile`, `compiled`, `done`, `error`.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envmgr.store.bytecode import compile_python
from envmgr.system.safe_paths import change
from envmgr.system.worker import emit, serve
from envmgr.wheels.unpack import inflate_by_isal, promised, unpack_all

_UNPACKED = ".unpacked"
"""Folder of a staging folder: where wheels are unpacked, below the install's whole final path."""
_OWN = frozenset({"site-packages", "EXTERNALLY-MANAGED"})


class NoPython(Exception):  # noqa: N818 - the name of what is wrong
    """There is no Python of that version to build on."""


def install(request: Mapping[str, Any]) -> None:
    """Install the files `wheels` into `staging`, with `final` baked in, over the Python `minor` of `base` (None:
    `programs`, whose packages it has, too, with `sees_base`).
    """
    inflate_by_isal()
    staging, final, minor = Path(request["staging"]), Path(request["final"]), str(request["minor"])
    wheels = [Path(path) for path in request["wheels"]]
    expected = promised(wheels, minor)
    root = staging / _UNPACKED
    tree = root / final.relative_to("/")
    for folder in ("", *expected.folders):  # by one process: those that unpack would race for them
        (tree / folder).mkdir(parents=True, exist_ok=True)
    emit("total", packages=len(wheels))
    unpack_all(wheels, root, final, minor, int(request["jobs"]))
    for path in sorted(tree.glob("bin/*")):
        change(path, mode=0o755, kinds=(stat.S_ISREG,))  # a wheel need not say that its scripts are programs
    for path in sorted(tree.iterdir()):
        path.rename(staging / path.name)
    shutil.rmtree(root)
    if request["base"] is None:
        make_environment(staging, minor, Path(request["programs"]), sees_base=bool(request.get("sees_base")))
    else:
        make_interpreter(staging, Path(request["base"]), minor)
    packages = staging / "lib" / f"python{minor}" / "site-packages"
    tests = bool(request.get("compiles_tests", True))
    compile_python(staging, str(final), int(request["jobs"]), emit, folders=[packages], tests=tests)
    emit("promised", files=expected.files)


def make_interpreter(staging: Path, base: Path, minor: str) -> None:
    """Make a real prefix of links in `staging`, over the Python `minor` (3.11) of the install at `base`.

    A virtual environment on top of an install sees its packages only if that is a real prefix (invariant 7).
    Source: CPython, Modules/getpath.py. Raise NoPython; OSError.
    """
    program = next((p for p in (base / "bin" / f"python{minor}", base / "bin" / "python3") if p.is_file()), None)
    library = base / "lib" / f"python{minor}"
    if program is None or not (library / "os.py").is_file():
        raise NoPython(f"{base} has no Python {minor}: neither bin/python{minor} nor lib/python{minor}/os.py")
    folder = _make_folders(staging, minor)
    own = staging / "bin" / f"python{minor}"
    # Python follows a link to its program, and would take the base for its own prefix.
    shutil.copyfile(program, own)
    own.chmod(0o755)
    for path in sorted(library.iterdir()):
        if path.name not in _OWN:
            (folder / path.name).symlink_to(path)
    _link(staging / "include" / f"python{minor}", base / "include" / f"python{minor}")
    for shared in sorted((base / "lib").glob(f"libpython{minor}*.so*")):
        _link(staging / "lib" / shared.name, shared)


def make_environment(staging: Path, minor: str, programs: Path, *, sees_base: bool = False) -> None:
    """Make a virtual environment in `staging`, over `programs/python<minor>`, with that Python's packages if
    `sees_base`. Raise NoPython; OSError.
    """
    program = programs / f"python{minor}"
    if not program.is_file():
        raise NoPython(f"there is no {program}")
    _make_folders(staging, minor)
    (staging / "bin" / f"python{minor}").symlink_to(program)
    (staging / "pyvenv.cfg").write_text(
        f"home = {programs}\ninclude-system-site-packages = {str(sees_base).lower()}\nversion = {minor}\n",
        encoding="utf-8",
    )


def _make_folders(staging: Path, minor: str) -> Path:
    """Make the folders, and the names of the program; return the library's folder."""
    (staging / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("python", "python3"):
        (staging / "bin" / name).symlink_to(f"python{minor}")
    library = staging / "lib" / f"python{minor}"
    (library / "site-packages").mkdir(parents=True, exist_ok=True)
    return library


def _link(place: Path, target: Path) -> None:
    """Link to the base's; a folder that packages have put files into stays theirs."""
    if target.exists() and not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)


if __name__ == "__main__":
    os.umask(0o022)  # the wheel decides which files are executable; `make_read_only` applies the site's own mask
    serve(install)
