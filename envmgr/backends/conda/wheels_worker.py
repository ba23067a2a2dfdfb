"""The worker that adds wheels to linked conda packages without changing them, and then compiles everything in one pass.

It is a separate process, because rattler's threads would not survive the forks of unpacking. Its protocol is in
system/worker.py. Events: `total`, `linked`, `compiling`, `compile`, `compiled`, `promised`, `done`, `error`.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name, parse_wheel_filename

from envmgr.store.bytecode import compile_python
from envmgr.system.safe_paths import change
from envmgr.system.worker import emit, serve
from envmgr.wheels.lock_checks import named, unmet_requirements
from envmgr.wheels.metadata import metadata_in
from envmgr.wheels.unpack import Promised, promised, unpack_all

_UNPACKED = ".unpacked"
"""Folder inside a staging folder. In it, the install's whole final path leads back to the staging folder."""
Installed = Mapping[str, tuple[str, str]]  # name of a distribution -> its version, and its folder or file


class Taken(Exception):  # noqa: N818 - the name states the fault
    """A wheel brings something that conda's packages bring. `details` has `what`, `wheel` and `package`."""

    def __init__(self, what: str, wheel: str, package: str) -> None:
        super().__init__(f"{what} is in {wheel} and in {package}")
        self.details = {"what": what, "wheel": wheel, "package": package}


class Lacking(Exception):  # noqa: N818 - the name states the fault
    """A package of conda does not bring what its name promises. `details` has `what`, `package`, and the `lines` of what
    needs it.
    """

    def __init__(self, what: str, package: str, lines: Sequence[str]) -> None:
        super().__init__(f"{package}: {what}")
        self.details = {"what": what, "package": package, "lines": list(lines)}


def add(request: Mapping[str, Any]) -> None:
    """Add the wheels to `staging`, with `final` written into the files, for the Python `python` (a version).

    `pip` are the recipe's rows; `promised` maps a distribution to the conda package that should bring it, by its name.

    Raises:
        Taken; Lacking; Overlap; BadWheel; ChildProcessError: see `compile_python`.
    """
    staging, final, python = Path(request["staging"]), Path(request["final"]), str(request["python"])
    minor, jobs = ".".join(python.split(".")[:2]), int(request["jobs"])
    wheels = [Path(path) for path in request["wheels"]]
    packages = staging / "lib" / f"python{minor}" / "site-packages"
    there = installed_distributions(packages)
    refuse_taken(wheels, there, staging)
    refuse_lacking(wheels, there, request, python)
    expected = promised(wheels, minor)
    refuse_taken_paths(expected, wheels, staging, minor)
    for folder in expected.folders:  # by one process: the unpacking processes would race for them
        (staging / folder).mkdir(parents=True, exist_ok=True)
    emit("total", packages=len(wheels))
    root = staging / _UNPACKED
    way = root / final.relative_to("/")
    way.parent.mkdir(parents=True)
    # `unpack` writes to the final path below `root`: the link leads these files into the staging folder.
    way.symlink_to(staging)
    unpack_all(wheels, root, final, minor, jobs)
    # `rmtree` removes the link, and does not follow it into the staging folder.
    shutil.rmtree(root)
    # The modes of conda's own programs stay as they are.
    before = {path for record in _records(staging) for path in record.get("files") or ()}
    for path in sorted(staging.glob("bin/*")):
        if str(path.relative_to(staging)) not in before and not path.is_symlink():
            change(path, mode=0o755, kinds=(stat.S_ISREG,))  # a wheel may not mark its scripts as programs
    compile_python(staging, str(final), jobs, emit)
    emit("promised", files=expected.files)


def installed_distributions(packages: Path) -> dict[str, tuple[str, str]]:
    """Map the normalised name of each distribution in `site-packages` to its version, and its folder or file.

    Source: packaging.python.org, "Recording installed projects"; setuptools' `.egg-info`, a folder or a file.
    """
    found: dict[str, tuple[str, str]] = {}
    for path in sorted([*packages.glob("*.dist-info"), *packages.glob("*.egg-info")]):
        stem = path.name.removesuffix(".dist-info").removesuffix(".egg-info").split("-")
        name, version = stem[0], stem[1] if len(stem) > 1 else ""
        for file in (path / "METADATA", path / "PKG-INFO", path):
            if file.is_file():
                head = HeaderParser().parsestr(file.read_text("utf-8", errors="replace"))
                name, version = head.get("Name") or name, head.get("Version") or version
                break
        found[canonicalize_name(name)] = (version, path.name)
    return found


def refuse_taken(wheels: Sequence[Path], there: Installed, staging: Path) -> None:
    for wheel in wheels:
        name = str(parse_wheel_filename(wheel.name)[0])
        if name in there:
            version, folder = there[name]
            owner = owner_of(staging, f"/{folder}") or "a package of conda's"
            raise Taken(f"{name} {version}", wheel.name, owner)


def refuse_taken_paths(expected: Promised, wheels: Sequence[Path], staging: Path, minor: str) -> None:
    # A link to nowhere takes a path, too.
    if taken := [path for path in sorted(expected.paths) if os.path.lexists(staging / path)]:
        wheel = next(each.name for each in wheels if taken[0] in promised([each], minor).paths)
        raise Taken(taken[0], wheel, owner_of(staging, taken[0]) or "a package of conda's")


def refuse_lacking(wheels: Sequence[Path], there: Installed, request: Mapping[str, Any], python: str) -> None:
    """Require each distribution that conda's packages should bring, and that the recipe or a wheel needs, in a version
    that meets them: the packages are only known by their names before.
    """
    heads = [metadata_in(wheel) for wheel in wheels]
    versions = {head.name: head.version for head in heads} | {name: version for name, (version, _) in there.items()}
    asking = [("the recipe", request["pip"]), *((f"{head.name} {head.version}", head.requires) for head in heads)]
    for name, package in request["promised"].items():
        lines = [
            fault.text
            for asker, rows in asking
            for fault in unmet_requirements(named(name, rows), versions, python, request["platform"], asker)
        ]
        if lines:
            what = f"it brings {name} {versions[name]}" if name in versions else name
            raise Lacking(what, package, lines)


def _records(staging: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((staging / "conda-meta").glob("*.json")):
        record: dict[str, Any] = json.loads(path.read_bytes())
        yield record


def owner_of(staging: Path, place: str) -> str:
    """Return `name version build` of the conda package that has this path, or one below it.

    A path that begins with a slash is found anywhere.
    """
    for record in _records(staging):
        paths = [f"/{path}/" for path in record.get("files") or ()]
        if any(path.startswith(f"/{place}/") or (place.startswith("/") and f"{place}/" in path) for path in paths):
            return f"{record['name']} {record['version']} {record['build']}"
    return ""


if __name__ == "__main__":
    os.umask(0o022)  # the wheel decides which files are executable; `make_read_only` applies the site's own mask
    serve(add)
