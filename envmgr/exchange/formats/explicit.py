"""conda's explicit list: a URL for each package, for one platform.

Source: conda's documentation, "Building identical conda environments".
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from envmgr.backends.conda.lockfile import package_of
from envmgr.exchange import Dropped, ExactPackages, Parsed, ReadFile
from envmgr.exchange.conda import FoundPackages

NAME = re.compile(r"[^/]*\.txt")
CONTENT = re.compile(r"^@EXPLICIT\s*$", re.MULTILINE)
_URL = re.compile(
    r"(?P<url>[a-z]+://\S+/(?P<subdir>[a-z0-9-]+)/(?P<name>[^/#\s]+)-(?P<version>[^/#\s-]+)-(?P<build>[^/#\s-]+)"
    r"\.(?:conda|tar\.bz2))(?:#(?:sha256:)?(?P<sum>[0-9a-f]{64}|[0-9a-f]{32}))?"
)


def read(given: ReadFile) -> Parsed:
    """Return the packages for the site's platform. Raise InputError `import-invalid`, `platform-missing`."""
    found, others = FoundPackages(given), list[str]()
    for number, line in enumerate(given.text.splitlines(), 1):
        row = line.strip()
        if not row or row.startswith(("#", "@EXPLICIT")):
            continue
        part = _URL.fullmatch(row)
        if part is None:
            found.leave(row, "it is no URL of a package of conda", number)
        elif part["subdir"] not in (given.subdir, "noarch"):
            others.append(part["subdir"])
            found.leave(row, f"it is for {part['subdir']}", number)
        else:
            sums = {"sha256" if len(part["sum"] or "") == 64 else "md5": part["sum"]}
            item = {"name": part["name"], "version": unquote(part["version"]), "url": part["url"], "hash": sums}
            found.packages.append(package_of(item, f"{given.path}:{number}"))
    given.require_platform([each for each in found.packages if each.subdir != "noarch"] or not others, others)
    return found.contents()


def write(exact: ExactPackages) -> tuple[str, list[Dropped]]:
    """Return the URLs with their sha256, as conda, mamba and pixi read them. Wheels are left."""
    lock = exact.only_conda()
    rows = [f"{each.url}#sha256:{each.sha256}" for each in lock.packages]
    left = [
        Dropped(0, f"{each.name} {each.version}", "a wheel: the format has only packages of conda")
        for each in exact.wheels
    ]
    return "\n".join([f"# platform: {lock.platform}", "@EXPLICIT", *rows, ""]), left
