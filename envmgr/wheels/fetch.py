"""Fetching of a lock's wheels and sources into the prefix's cache.

No lock names a host: the index says where a file lies.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

from envmgr.catalog.site import Site
from envmgr.downloads import Download, Fetched, FetchedFile, Given
from envmgr.downloads.client import bring
from envmgr.errors import EnvmgrError, Interrupted
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.system.run import Runner
from envmgr.system.scratch import scratch_folder
from envmgr.wheels.failures import other_ways, wheel_failure_for
from envmgr.wheels.locked import LockedFile, LockedSdist, LockedWheel, WheelSet
from envmgr.wheels.resolve import index_places
from envmgr.wheels.settings import wheel_cache
from envmgr.wheels.uv import ONLY_WHEELS, PYLOCK, IndexPlace, UnreachedError, compile_requirements

_OURS = ("disk-full", "not-writable", "file-unreadable")  # no other place helps


def fetch_wheels(
    lock: WheelSet, label: str, site: Site, runner: Runner, reporter: Reporter, *, given: Given, dry_run: bool = False
) -> Fetched:
    """Bring the files into the cache, also those in folders; `label` is the entry.

    Each index is asked at its places in order; what one of them does not have comes from the next. A wheel without an
    index has a URL.

    Raises:
        EnvmgrError: for what cannot be fetched, by what the last place said of it.
    """
    cache = wheel_cache(Prefix(site.prefix))
    files = lock.files
    places = index_places(list(dict.fromkeys(file.index for file in files if file.index)), site, {})
    turns = max(map(len, places.values()), default=1)
    own = {wheel.sha256: wheel.url for wheel in lock.wheels if wheel.url and not wheel.index}

    def fetch(wheels: Sequence[LockedFile], urls: Mapping[str, str], *, dry: bool) -> Fetched:
        downloads = [Download(w.file, w.sha256, (urls[w.sha256],) if w.sha256 in urls else (), w.size) for w in wheels]
        failure = wheel_failure_for(label)
        policies = site.policies
        return bring(
            downloads, cache, policies, runner, reporter, label=label, failure=failure, given=given, dry_run=dry
        )

    looked = fetch(files, {}, dry=True)
    if dry_run:
        return Fetched(tuple(_with_places(f, lock, places) for f in looked.files))
    done = {file.sha256: file for file in looked.files if file.state == "present"}
    waiting = [file for file in files if file.sha256 not in done]
    for turn in range(turns):
        if not waiting:
            break
        now = {name: IndexPlace(name, urls[min(turn, len(urls) - 1)]) for name, urls in places.items()}
        try:
            # If the administrator gave every file, no index is asked.
            asked = [] if given.keys() >= {w.sha256 for w in waiting} else [w for w in waiting if w.index]
            fetched = fetch(waiting, own | _locate(asked, lock, label, now, runner), dry=False)
        except Interrupted:
            raise
        except EnvmgrError as error:
            if turn == turns - 1 or error.reference in _OURS:
                raise
            reporter.say(f"{label}: {error.message}: trying the next place")
            fetched = fetch(waiting, {}, dry=True)
        done |= {file.sha256: file for file in fetched.files if file.state != "missing"}
        waiting = [file for file in waiting if file.sha256 not in done]
    return Fetched(tuple(done[file.sha256] for file in files))


def _with_places(file: FetchedFile, lock: WheelSet, places: Mapping[str, Sequence[str]]) -> FetchedFile:
    """Return the file with the pages that list it, if it is missing."""
    if file.state != "missing":
        return file
    wheel = next(w for w in lock.files if w.sha256 == file.sha256)
    if isinstance(wheel, LockedWheel) and not wheel.index:
        return replace(file, places=(wheel.url or "",))
    pages = (f"{url}/{wheel.file if IndexPlace('', url).folder else f'{wheel.name}/'}" for url in places[wheel.index])
    return replace(file, places=tuple(pages))


def _locate(
    wheels: Sequence[LockedFile], lock: WheelSet, label: str, places: Mapping[str, IndexPlace], runner: Runner
) -> dict[str, str]:
    """Map the sha256 of each wheel to its URL at the place of its index.

    Raises:
        EnvmgrError: `not-found` for those that are nowhere there; or as the index fails.
    """
    found: dict[str, str] = {}
    asked: dict[tuple[str, int], list[LockedFile]] = {}
    group_of = {each.sha256: number for number, group in enumerate(lock.groups) for each in group}
    for wheel in wheels:
        folder = places[wheel.index].folder
        if folder is None:
            asked.setdefault((wheel.index, group_of[wheel.sha256]), []).append(wheel)
        elif (folder / wheel.file).is_file():
            found[wheel.sha256] = (folder / wheel.file).as_uri()
    for (name, _), group in asked.items():
        sources = [word for each in group if isinstance(each, LockedSdist) for word in ("--no-binary", each.name)]
        try:
            with scratch_folder("index") as scratch:
                text = compile_requirements(
                    [f"{w.name}=={w.version}" for w in group],
                    [places[name]],
                    runner,
                    scratch,
                    python=lock.python,
                    platform=lock.platform,
                    options=["--no-deps", *PYLOCK, *ONLY_WHEELS, *sources],
                )
        except UnreachedError as error:
            error.hint = other_ways(label)
            raise
        urls = dict(urls_of(tomllib.loads(text)))
        found |= {w.sha256: url for w in group if (url := urls.get(w.sha256)) and _file_of(url) == w.file}
    if lacking := [wheel for wheel in wheels if wheel.sha256 not in found]:
        where = ", ".join(dict.fromkeys(places[w.index].url for w in lacking))
        raise EnvmgrError(
            "not-found",
            f"{lacking[0].file} is not at {where}",
            context=[f"{w.file}  sha256 {w.sha256}" for w in lacking[:10]],
            hint="add a mirror that has it (backends.wheels.indexes in site.yaml), give the file "
            f"(`envmgr fetch {label} --file FILE`), or lock again",
        )
    return found


def _file_of(url: str) -> str:
    """Return the name of the file, whose tags must be the lock's.

    Source: PEP 503, the last part of the URL is its name.
    """
    return unquote(urlsplit(url).path).rpartition("/")[2]


def urls_of(pylock: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield sha256 and URL of every file in a pylock.toml."""
    for package in pylock.get("packages", ()):
        for wheel in (*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else [])):
            if (sha256 := wheel["hashes"].get("sha256")) and re.match(r"(https?|file)://", wheel.get("url", "")):
                yield sha256, wheel["url"]
