"""Install the files of a lock: each is held to its row, and a worker unpacks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.utils import parse_wheel_filename

from envmgr.downloads.bars import promised_by_worker
from envmgr.errors import InputError
from envmgr.report import Reporter
from envmgr.store.prefix import Install
from envmgr.system.run import Runner
from envmgr.wheels.fetch import wheel_failure
from envmgr.wheels.lockfile import LockedRow, is_file_of
from envmgr.wheels.settings import wheel_cache
from envmgr.wheels.target import target_tags


def require_wheels(files: Mapping[LockedRow, Path], minor: str, platform: str, hint: str) -> None:
    """Raise InputError `lock-invalid` for a file that is no wheel of its row for the Python: only its sha256 found it,
    and only its name says what it is.
    """
    tags = frozenset(target_tags(minor, platform))
    for row, file in files.items():
        wheel = is_file_of(row, file.name) and file.suffix == ".whl"
        if not wheel or tags.isdisjoint(parse_wheel_filename(file.name)[3]):
            raise InputError(
                "lock-invalid",
                f"{file.name} is no wheel of {row.name} {row.version} for Python {minor} and {platform}",
                hint=hint,
            )


def install_wheels(
    wheels: Sequence[Path],
    install: Install,
    runner: Runner,
    reporter: Reporter,
    *,
    minor: str,
    base: Path | None,
    programs: Path,
    jobs: int,
    **more: bool,
) -> dict[str, str]:
    """Unpack wheels into the staging folder of an install, with a Python of its own; see install_worker.py.

    Return path -> sha256, as the wheels promise their files.
    """
    request = {
        "wheels": [str(path) for path in wheels],
        "staging": str(install.staging),
        "final": str(install.path),
        "minor": minor,
        "base": None if base is None else str(base),
        "programs": str(programs),
        "cache": str(wheel_cache(install.prefix)),
        "jobs": jobs,
        **more,
    }
    worker, label = "envmgr.wheels.install_worker", str(install.entry)
    failure = wheel_failure(label)
    return promised_by_worker(worker, request, len(wheels), label, runner, reporter, failure=failure)
