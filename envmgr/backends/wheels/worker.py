"""The worker that installs wheels: unpacks them by PyPA's `installer`, makes the interpreter, compiles.

How it is spoken to: downloads/child.py. Events: `total`, `linked`, `compiling`, `compile`, `compiled`, `done`, `error`.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from envmgr.backends.wheels.interpreter import make_environment, make_interpreter
from envmgr.backends.wheels.records import promised
from envmgr.downloads.child import emit, serve
from envmgr.store.bytecode import compile_python

_UNPACKED = ".unpacked"
"""Folder of a staging folder: where wheels are unpacked, below the install's whole final path."""


def install(request: Mapping[str, Any]) -> None:
    """Install the files `wheels` into `staging`, with `final` baked in, over the Python `minor` of `base` (None: `programs`)."""
    staging, final, minor = Path(request["staging"]), Path(request["final"]), str(request["minor"])
    wheels = [Path(path) for path in request["wheels"]]
    expected = promised(wheels, minor)
    root = staging / _UNPACKED
    tree = root / final.relative_to("/")
    for folder in ("", *expected.folders):  # by one process: those that unpack would race for them
        (tree / folder).mkdir(parents=True, exist_ok=True)
    emit("total", packages=len(wheels))
    _unpack_all(wheels, root, final, minor, int(request["jobs"]))
    for path in sorted(tree.glob("bin/*")):
        path.chmod(0o755)  # a wheel need not say that its scripts are programs
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


def _unpack_all(wheels: list[Path], root: Path, final: Path, minor: str, jobs: int) -> None:
    """One process a wheel, the biggest first."""
    ordered = sorted(wheels, key=lambda path: path.stat().st_size, reverse=True)
    with ProcessPoolExecutor(max(1, min(jobs, len(ordered)))) as pool:
        under_way = {pool.submit(unpack, path, root, final, minor): path for path in ordered}
        try:
            for done in as_completed(under_way):
                done.result()
                emit("linked", name=under_way[done].name)
        except BrokenProcessPool as error:
            raise ChildProcessError(f"a process that unpacks wheels was ended: {error}") from None
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def unpack(wheel: Path, root: Path, final: Path, minor: str) -> None:
    """One wheel, below `root` + `final`. Its console scripts start `final`'s Python.

    Source: packaging.python.org, "Installation schemes"; `installer`'s documentation.
    """
    from installer import install as install_wheel
    from installer.destinations import SchemeDictionaryDestination
    from installer.sources import WheelFile

    packages = final / "lib" / f"python{minor}" / "site-packages"
    name = wheel.name.partition("-")[0]
    destination = SchemeDictionaryDestination(
        {
            "purelib": str(packages), "platlib": str(packages), "scripts": str(final / "bin"), "data": str(final),
            "headers": str(final / "include" / "site" / f"python{minor}" / name),
        },
        interpreter=str(final / "bin" / f"python{minor}"), script_kind="posix", destdir=str(root),
        overwrite_existing=True,  # what two wheels have alike; the rest was refused before
    )  # fmt: skip
    with warnings.catch_warnings(), WheelFile.open(wheel) as source:
        warnings.simplefilter("ignore", RuntimeWarning)  # bytecode in a wheel: it is left out, and compiled
        install_wheel(source, destination, {"INSTALLER": b"envmgr\n"})


if __name__ == "__main__":
    os.umask(0o022)  # what is executable is told by the wheel; the site's own mask comes with `make_read_only`
    serve(install)
