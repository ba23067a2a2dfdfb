"""Wheels as files, by PyPA's `installer`. Runs inside a worker; event `linked`."""

from __future__ import annotations

import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from envmgr.downloads.child import emit
from envmgr.wheels.records import reading


class Ended(Exception):  # noqa: N818 - what happened
    """A process that unpacks was killed, by whomever."""


def unpack_all(wheels: list[Path], root: Path, final: Path, minor: str, jobs: int) -> None:
    """One process a wheel, the biggest first."""
    ordered = sorted(wheels, key=lambda path: path.stat().st_size, reverse=True)
    with ProcessPoolExecutor(max(1, min(jobs, len(ordered)))) as pool:
        under_way = {pool.submit(unpack, path, root, final, minor): path for path in ordered}
        try:
            for done in as_completed(under_way):
                done.result()
                emit("linked", name=under_way[done].name)
        except BrokenProcessPool:
            raise Ended("a process that unpacks wheels was killed") from None
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
            "purelib": str(packages),
            "platlib": str(packages),
            "scripts": str(final / "bin"),
            "data": str(final),
            "headers": str(final / "include" / "site" / f"python{minor}" / name),
        },
        interpreter=str(final / "bin" / f"python{minor}"),
        script_kind="posix",
        destdir=str(root),
        overwrite_existing=True,  # what two wheels have alike; the rest was refused before
    )
    with reading(wheel), warnings.catch_warnings(), WheelFile.open(wheel) as source:
        warnings.simplefilter("ignore", RuntimeWarning)  # bytecode in a wheel: it is left out, and compiled
        install_wheel(source, destination, {"INSTALLER": b"envmgr\n"})
