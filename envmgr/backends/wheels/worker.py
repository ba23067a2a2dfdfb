"""The worker that installs wheels: unpacks them, makes the interpreter, compiles.

How it is spoken to: system/worker.py. Events: `total`, `linked`, `compiling`, `compile`, `compiled`, `done`, `error`.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envmgr.backends.wheels.base import make_environment, make_interpreter
from envmgr.store.bytecode import compile_python
from envmgr.system.safe_paths import change
from envmgr.system.worker import emit, serve
from envmgr.wheels.unpack import promised, unpack_all

_UNPACKED = ".unpacked"
"""Folder of a staging folder: where wheels are unpacked, below the install's whole final path."""


def install(request: Mapping[str, Any]) -> None:
    """Install the files `wheels` into `staging`, with `final` baked in, over the Python `minor` of `base` (None:
    `programs`).
    """
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
        make_environment(staging, minor, Path(request["programs"]))
    else:
        make_interpreter(staging, Path(request["base"]), minor)
    packages = staging / "lib" / f"python{minor}" / "site-packages"
    compile_python(staging, str(final), int(request["jobs"]), emit, folders=[packages])
    emit("promised", files=expected.files)


if __name__ == "__main__":
    os.umask(0o022)  # the wheel decides which files are executable; `make_read_only` applies the site's own mask
    serve(install)
