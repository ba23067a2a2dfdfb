"""pixi.lock, by rattler's own reader: the packages of its environment `default`. Written as version 6.

Source: pixi's documentation, "Lock file"; tried with py-rattler 0.28, which reads versions 1 to 7.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name
from pydantic import ValidationError

from envmgr.exchange import Contents, Exact, Given, Left
from envmgr.exchange.checks import NO_INDEX, row_of
from envmgr.exchange.conda import contents_of
from envmgr.system.scratch import scratch_folder
from envmgr.system.yamlfile import dump_yaml
from envmgr.wheels.locked import LockedWheel
from envmgr.wheels.requirements import HashedRow

NAME = re.compile(r"pixi\.lock")
CONTENT = re.compile(r"^environments:\s*$", re.MULTILINE)
_WHEEL = re.compile(r"(?![a-z]+\+)[^?#]*\.whl([?#].*)?")
_DEFAULT = "default"
_KEPT = ("sha256", "md5", "depends", "constrains", "license", "size", "timestamp", "python_site_packages_path")


def read(given: Given) -> Contents:
    """Return the packages for the site's platform. Raise InputError `import-invalid`, `platform-missing`."""
    from rattler.lock import CondaLockedBinaryPackage, LockFile, PypiLockedPackage

    from envmgr.backends.conda.solve import package_of

    with scratch_folder("pixi") as folder:
        (folder / "pixi.lock").write_text(given.text, encoding="utf-8")
        environments = dict(LockFile.from_path(folder / "pixi.lock").environments())
    if _DEFAULT not in environments:
        raise given.invalid(f"it has no environment `{_DEFAULT}`")
    own = environments.pop(_DEFAULT)
    left = [
        given.left(f"{name}:", f"the environment `{name}`: only `{_DEFAULT}` is carried over") for name in environments
    ]
    platforms = {str(each.subdir): each for each in own.platforms()}
    given.require_platform(given.subdir in platforms, [*platforms])
    packages, wheels, rows, lacks = [], list[LockedWheel](), list[HashedRow](), ""
    for each in (own.packages(platforms[given.subdir]) or ()) if platforms else ():
        if isinstance(each, CondaLockedBinaryPackage):
            record = each.repo_data_record()
            packages.append(package_of({**json.loads(record.to_json()), "url": record.url}))
        elif isinstance(each, PypiLockedPackage):
            wheel = _wheel(each, given.path.parent)
            wheels += [] if wheel is None else [wheel]
            lacks = lacks if wheel else f"{each.name} is no wheel with a sha256"
            found = "" if _WHEEL.fullmatch(each.location) else NO_INDEX
            row = found or row_of(f"{each.name}=={each.version}", [wheel.sha256] if wheel else ())
            rows += [row] if isinstance(row, HashedRow) else []
            left += [given.left(each.location, row)] if isinstance(row, str) else []
        else:
            lacks = f"{each.name} is built from its source"
            left.append(given.left(each.location, "it is built from its source"))
    return contents_of(given, packages, wheels, left, rows, lacks)


def _wheel(each: Any, folder: Path) -> LockedWheel | None:
    """Return the wheel; None for what is no wheel, or has no sha256."""
    try:
        return LockedWheel(
            name=canonicalize_name(each.name),
            version=str(each.version),
            file=unquote(urlsplit(each.location).path).rpartition("/")[2],
            sha256=each.hashes.sha256.hex(),
            index="",
            url=each.location if "://" in each.location else (folder / each.location).absolute().as_uri(),
            requires=tuple(each.requires_dist),
        )
    except (AttributeError, ValidationError):  # there is no hash, or no file
        return None


def write(exact: Exact) -> tuple[str, list[Left]]:
    """Return a lock with one environment for one platform."""
    lock, urls = exact.only_conda(), exact.urls()
    conda = [{"conda": each.url, **{k: v for k, v in each.to_json().items() if k in _KEPT}} for each in lock.packages]
    pypi = [
        {
            "pypi": urls[each.sha256],
            "name": each.name,
            "version": each.version,
            "sha256": each.sha256,
            "requires_dist": [*(each.requires or ())],
        }
        for each in exact.wheels
    ]
    rows: list[dict[str, Any]] = [*conda, *pypi]
    named = [{key: row[key]} for row in rows for key in ("conda", "pypi") if key in row]
    environment: dict[str, Any] = {"channels": [{"url": f"{each.url}/"} for each in lock.channels]}
    environment |= {"indexes": [*exact.indexes]} if pypi else {}
    environment["packages"] = {lock.platform: named}
    return dump_yaml({"version": 6, "environments": {_DEFAULT: environment}, "packages": rows}, width=200), []
