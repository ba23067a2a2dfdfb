"""`envmgr fetch --file` of a carried cache, against `cp` and `sha256sum` of the files that the entry needs.

The other side also starts envmgr and reads the lock once (`envmgr check`), because every run of it does. The cache has
files of other entries, as one that was carried has: they must cost nothing. The entry of EasyBuild is one whose cache was
fetched with `--carry`; an envmgr with an EasyBuild of its own must not look through that.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from benchmarks.measure import Claim, Ratio, Took, alternate, took
from benchmarks.site import ENTRY, envmgr, make_site
from envmgr.system.files import remove_tree
from tests.helpers.easybuild.workshop import real_sources
from tests.helpers.places import CACHE

_OTHERS = 4  # files of other entries, each of
_SIZE = 512 << 20  # bytes
_COPY = 'cp -r "$1" "$2" && find "$2" -type f -exec sha256sum {} +'
_BZIP2 = "bzip2/1.0"


def claims(channel: str, runs: int) -> list[Claim]:
    root = Path(tempfile.mkdtemp(prefix="envmgr-bench-"))
    try:
        env = make_site(root, channel)
        took(envmgr("lock", ENTRY), env=env)
        real_sources("bzip2")
        mirror = root / "carry.yaml"
        mirror.write_text(f"schema: 1\nprefix: {root / 'prefix'}\nsources: {{mirrors: [{CACHE / 'sources'}]}}\n")
        return [
            _claim(root / "conda", ENTRY, envmgr("fetch", ENTRY), env, runs),
            _claim(root / "easybuild", _BZIP2, envmgr("fetch", _BZIP2, "--carry", "--site", str(mirror)), env, runs),
        ]
    finally:
        remove_tree(root)


def _claim(carried: Path, entry: str, fetch: list[str], env: dict[str, str], runs: int) -> Claim:
    prefix = carried.parent / "prefix"
    remove_tree(prefix)
    took(fetch, env=env)
    needed = carried / "needed"
    shutil.copytree(prefix / "cache", needed)
    shutil.copytree(needed, carried / "cache")
    for number in range(_OTHERS):
        place = carried / "cache/others" / f"{number:064x}"
        place.mkdir(parents=True)
        with (place / "other").open("wb") as file:
            file.truncate(_SIZE)

    def ours() -> Took:
        remove_tree(prefix)
        return took(envmgr("fetch", entry, "--file", str(carried / "cache")), env=env)

    def theirs() -> Took:
        remove_tree(carried / "copy")
        start = took(envmgr("check", entry), env=env)
        copied = took(["sh", "-c", _COPY, "sh", needed, carried / "copy"])
        return Took(start.wall + copied.wall, (start.cpu or 0) + (copied.cpu or 0))

    name = f"fetch --file of a carried cache, {entry.partition('/')[0]} / envmgr's start, cp and sha256sum"
    size = sum(path.stat().st_size for path in needed.rglob("*") if path.is_file())
    note = f"{size >> 20} MiB are needed, {_OTHERS * _SIZE >> 20} MiB are others'"
    return Ratio(name, alternate(ours, theirs, runs), 3, note=note)
