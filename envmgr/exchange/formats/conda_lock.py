"""conda-lock.yml (v1), the format of envmgr's own locks of conda: its reader reads other tools' files, too."""

from __future__ import annotations

import re

from envmgr.backends.conda.lockfile import document_of, package_of
from envmgr.errors import EnvmgrError
from envmgr.exchange import Contents, Exact, Given, Left
from envmgr.exchange.checks import NO_INDEX, row_of
from envmgr.exchange.conda import contents_of
from envmgr.system.yamlfile import dump_yaml, parse_yaml
from envmgr.wheels.locked import LockedWheel
from envmgr.wheels.requirements import HashedRow

NAME = re.compile(r"[^/]*conda-lock\.ya?ml")
CONTENT = re.compile(r"^package:", re.MULTILINE)


def read(given: Given) -> Contents:
    """Return the packages for the site's platform. Raise InputError `import-invalid`, `platform-missing`,
    `lock-invalid`.
    """
    data = parse_yaml(given.text, given.path)
    if not isinstance(data, dict) or data.get("version") != 1 or not isinstance(data.get("package"), list):
        raise given.invalid("it is no conda-lock v1 file")
    items = [each for each in data["package"] if isinstance(each, dict)]
    own = [each for each in items if each.get("platform") == given.subdir]
    given.require_platform(own, [str(each.get("platform")) for each in items])
    left = list[Left]()
    packages, wheels, rows, lacks = [], list[LockedWheel](), list[HashedRow](), ""
    for number, item in enumerate(own):
        name = f"{item.get('name')} {item.get('version')}"
        if item.get("category", "main") != "main" or item.get("optional"):
            left.append(given.left(item.get("url"), f"{name} is of the category `{item.get('category')}`"))
        elif item.get("manager") == "conda":
            packages.append(package_of(item, f"{given.path}: package {number}"))
        elif item.get("manager") != "pip":
            lacks = f"{name} is a package of {item.get('manager')}"
            left.append(given.left(item.get("url"), lacks))
        else:
            from envmgr.backends.conda.pip import wheel_of

            sums, found = list[str](), ""
            try:
                wheels.append(wheel_of(item, name, given.path, given.text))
                sums = [wheels[-1].sha256]
            except (EnvmgrError, ValueError) as error:
                lacks = error.message if isinstance(error, EnvmgrError) else f"{name} is no wheel"
                found = "" if getattr(error, "reference", "") == "lock-unhashed" else NO_INDEX
            row = found or row_of(f"{item.get('name')}=={item.get('version')}", sums)
            rows += [row] if isinstance(row, HashedRow) else []
            left += [given.left(item.get("url"), f"{name}: {row}")] if isinstance(row, str) else []
    return contents_of(given, packages, wheels, left, rows, lacks)


def write(exact: Exact) -> tuple[str, list[Left]]:
    """Return a file that conda-lock, micromamba and pixi read."""
    lock, urls = exact.only_conda(), exact.urls()
    document = document_of(lock)
    for item in document["package"]:
        item["url"] = urls.get(item["hash"]["sha256"], item["url"])
    bare = [each for each in lock.packages if not each.md5]
    why = "the lock has none, and conda-lock itself reads no file without it"
    return dump_yaml(document, width=200), [Left(0, f"md5 of {each.name}", why) for each in bare]
