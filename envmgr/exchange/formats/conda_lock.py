"""conda-lock.yml (v1), the format of envmgr's own locks of conda: its reader reads other tools' files, too."""

from __future__ import annotations

import re
from dataclasses import replace

from envmgr.backends.conda.lockfile import document_of, package_of
from envmgr.exchange import Dropped, ExactPackages, Parsed, ReadFile
from envmgr.exchange.conda import FoundPackages
from envmgr.system.yamlfile import dump_yaml, parse_yaml

NAME = re.compile(r"[^/]*conda-lock\.ya?ml")
CONTENT = re.compile(r"^package:", re.MULTILINE)


def read(given: ReadFile) -> Parsed:
    """Return the packages for the site's platform. Raise InputError `import-invalid`, `platform-missing`,
    `lock-invalid`.
    """
    data = parse_yaml(given.text, given.path)
    if not isinstance(data, dict) or data.get("version") != 1 or not isinstance(data.get("package"), list):
        raise given.invalid("it is no conda-lock v1 file")
    items = [each for each in data["package"] if isinstance(each, dict)]
    own = [each for each in items if each.get("platform") == given.subdir]
    given.require_platform(own, [str(each.get("platform")) for each in items])
    found = FoundPackages(given)
    for number, item in enumerate(own):
        name, url = f"{item.get('name')} {item.get('version')}", str(item.get("url"))
        if item.get("category", "main") != "main" or item.get("optional"):
            found.leave(url, f"{name} is of the category `{item.get('category')}`")
        elif item.get("manager") == "conda":
            found.packages.append(package_of(item, f"{given.path}: package {number}"))
        elif item.get("manager") == "pip":
            sums = item.get("hash")
            sha256 = str(sums.get("sha256")) if isinstance(sums, dict) else ""
            found.add_wheel(str(item.get("name")), str(item.get("version")), url, sha256, url)
        else:
            found.lacks = f"{name} is a package of {item.get('manager')}"
            found.leave(url, found.lacks)
    return found.contents()


def write(exact: ExactPackages) -> tuple[str, list[Dropped]]:
    """Return a file that conda-lock, micromamba and pixi read."""
    lock, files = exact.only_conda(), exact.files()
    document = document_of(replace(lock, added=None))
    more = {"manager": "pip", "platform": lock.platform, "dependencies": {}, "category": "main", "optional": False}
    for each in exact.wheels:
        own = {"name": each.name, "version": each.version, "url": files[each.sha256].url}
        document["package"].append({**own, "hash": {"sha256": each.sha256}, **more})
    bare = [each for each in lock.packages if not each.md5]
    why = "the lock has none, and conda-lock itself reads no file without it"
    return dump_yaml(document, width=200), [Dropped(0, f"md5 of {each.name}", why) for each in bare]
