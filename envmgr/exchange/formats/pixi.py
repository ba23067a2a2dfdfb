"""pixi.lock, by rattler's own reader: the packages of its environment `default`. Written as version 6.

Source: pixi's documentation, "Lock file"; tried with py-rattler 0.28, which reads versions 1 to 7.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from envmgr.exchange import Dropped, ExactPackages, Parsed, ReadFile
from envmgr.exchange.conda import FoundPackages
from envmgr.system.scratch import scratch_folder
from envmgr.system.yamlfile import dump_yaml

NAME = re.compile(r"pixi\.lock")
CONTENT = re.compile(r"^environments:\s*$", re.MULTILINE)
_DEFAULT = "default"
_KEPT = ("sha256", "md5", "depends", "constrains", "license", "size", "timestamp", "python_site_packages_path")


def read(given: ReadFile) -> Parsed:
    """Return the packages for the site's platform. Raise InputError `import-invalid`, `platform-missing`."""
    from rattler.lock import CondaLockedBinaryPackage, LockFile, PypiLockedPackage

    from envmgr.backends.conda.solve import package_of

    with scratch_folder("pixi") as folder:
        (folder / "pixi.lock").write_text(given.text, encoding="utf-8")
        environments = dict(LockFile.from_path(folder / "pixi.lock").environments())
    if _DEFAULT not in environments:
        raise given.invalid(f"it has no environment `{_DEFAULT}`")
    own = environments.pop(_DEFAULT)
    found = FoundPackages(given)
    for name in environments:
        found.leave(f"{name}:", f"the environment `{name}`: only `{_DEFAULT}` is carried over")
    platforms = {str(each.subdir): each for each in own.platforms()}
    given.require_platform(given.subdir in platforms, [*platforms])
    for each in (own.packages(platforms[given.subdir]) or ()) if platforms else ():
        if isinstance(each, CondaLockedBinaryPackage):
            record = each.repo_data_record()
            found.packages.append(package_of({**json.loads(record.to_json()), "url": record.url}))
        elif isinstance(each, PypiLockedPackage):
            place = each.location if "://" in each.location else (given.path.parent / each.location).as_uri()
            sha256 = ""
            with suppress(AttributeError):  # there is none
                sha256 = each.hashes.sha256.hex()
            found.add_wheel(each.name, str(each.version), place, sha256, each.location)
        else:
            found.lacks = f"{each.name} is built from its source"
            found.leave(each.location, "it is built from its source")
    return found.contents()


def write(exact: ExactPackages) -> tuple[str, list[Dropped]]:
    """Return a lock with one environment for one platform."""
    lock, files = exact.only_conda(), exact.files()
    conda = [{"conda": each.url, **{k: v for k, v in each.to_json().items() if k in _KEPT}} for each in lock.packages]
    pypi = [
        {"pypi": files[each.sha256].url, "name": each.name, "version": each.version, "sha256": each.sha256}
        for each in exact.wheels
    ]
    rows: list[dict[str, Any]] = [*conda, *pypi]
    named = [{key: row[key]} for row in rows for key in ("conda", "pypi") if key in row]
    environment: dict[str, Any] = {"channels": [{"url": f"{each.url}/"} for each in lock.channels]}
    environment |= {"indexes": [*exact.indexes()]} if pypi else {}
    environment["packages"] = {lock.platform: named}
    return dump_yaml({"version": 6, "environments": {_DEFAULT: environment}, "packages": rows}, width=200), []
