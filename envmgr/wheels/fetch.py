"""Fetch a lock's wheels and sources into the prefix's cache; word the errors of workers that handle wheels.

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
from envmgr.downloads.bring import bring
from envmgr.downloads.failures import disk_failure, download_failure
from envmgr.errors import EnvmgrError, Interrupted
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.system.child import Failure
from envmgr.system.run import Runner
from envmgr.system.scratch import scratch_folder
from envmgr.wheels.locked import LockedFile, LockedSdist, LockedWheel, WheelSet
from envmgr.wheels.resolve import index_places
from envmgr.wheels.settings import wheel_cache
from envmgr.wheels.uv import ONLY_WHEELS, PYLOCK, IndexPlace, UnreachedError, compile_requirements

_MIRROR = (
    "give the index a mirror in site.yaml (backends.wheels.indexes.<name>.mirrors takes URLs and folders), or bring "
    "the wheels from a machine with a network: `envmgr fetch ENTRY` there, `envmgr fetch ENTRY --file FOLDER` here"
)
_AGAIN = (
    "what was fetched is kept: run the same command again, or use another mirror (backends.wheels.indexes in site.yaml)"
)
# Kind of the last place's fault -> reference and hint.
_DOWNLOADS = {
    "unreachable": ("no-network", _MIRROR),
    "not-found": ("not-found", f"the index no longer has it: {_MIRROR}; or lock again"),
    "stalled": ("download-stalled", f"try again later, or {_MIRROR}"),
    "sha256": (
        "wrong-sha256",
        (
            "the file there is damaged or was replaced: compare it with the index's; an index never changes a file "
            "of a version"
        ),
    ),
    "refused": ("download-refused", f"the server wants a login, or forbids it: {_MIRROR}"),
}
# Kind of a worker's error -> reference, context and hint; the error's own message stays.
_KINDS: Mapping[str, tuple[str, Sequence[str], str]] = {
    "NoPython": ("base-without-python", (), "is the entry that `python:` names whole? `envmgr verify` tells"),
    "Ended": (
        "install-failed",
        ("by the kernel where memory is short (`dmesg` says so), or by somebody",),
        "run the same command again, with a smaller --jobs where memory is short",
    ),
}


def other_ways(entry: str) -> str:
    """Return the hint how wheels come to a host that does not reach their index."""
    return _MIRROR.replace("ENTRY", entry)


def wheel_failure_for(entry: str) -> Failure:
    """Return `wheel_failure` with hints that name this entry."""

    def explain(event: Mapping[str, Any], request: Mapping[str, Any]) -> EnvmgrError:
        error = wheel_failure(event, request)
        error.hint = error.hint.replace("ENTRY", entry)
        return error

    return explain


def wheel_failure(event: Mapping[str, Any], request: Mapping[str, Any]) -> EnvmgrError:
    """Return the error for the event of a worker that downloads or installs."""
    kind, message = str(event["kind"]), str(event["message"])
    if kind == "DownloadError":
        return download_failure(event, _DOWNLOADS, again=_AGAIN)
    if disk := disk_failure(event, request):
        return disk
    if kind == "BadWheel":
        hint = "report it to the package's authors; lock another version"
        return EnvmgrError("wheel-invalid", message, hint=hint)
    if kind in _KINDS:
        reference, context, hint = _KINDS[kind]
        return EnvmgrError(reference, message, context=context, hint=hint)
    if kind == "Overlap":
        return EnvmgrError(
            "wheels-overlap",
            f"two wheels have one path with different content: {event['path']}",
            context=[str(event["first"]), str(event["second"])],
            hint="which one wins would be chance: leave one of the two out (packages such as opencv-python and "
            "opencv-python-headless are one package under two names), by the recipe's requirements or constraints",
        )
    lines = [line.rstrip() for line in message.splitlines() if line.strip()]
    return EnvmgrError(
        "install-failed",
        lines[0] if lines else f"the installation of wheels failed, by a fault of envmgr or its libraries: {kind}",
        context=lines[1:],
        hint="nothing was installed; report it with the log if it fails again",
    )


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

    def fetch(
        wheels: Sequence[LockedFile], urls: Mapping[str, str], *, dry: bool = False, given: Given | None = None
    ) -> Fetched:
        downloads = [Download(w.file, w.sha256, (urls[w.sha256],) if w.sha256 in urls else (), w.size) for w in wheels]
        failure = wheel_failure_for(label)
        policies = site.policies
        return bring(
            downloads, cache, policies, runner, reporter, label=label, failure=failure, given=given or {}, dry_run=dry
        )

    # The cache comes first: no index is asked for a file that is already there.
    looked = fetch(files, {}, dry=True, given=given)
    if dry_run:
        return Fetched(tuple(_with_places(f, lock, places) for f in looked.files))
    done = {file.sha256: file for file in looked.files if file.state == "present"}
    refused: EnvmgrError | None = None
    # Then the files that the administrator gave: if they are all, no index is asked.
    for turn in range(-1 if given else 0, turns):
        waiting = [file for file in files if file.sha256 not in done]
        if turn < 0:
            waiting = [file for file in waiting if file.sha256 in given]
        if not waiting:
            continue
        # An index with fewer places than the others is asked at its last one again.
        now = {name: IndexPlace(name, urls[min(turn, len(urls) - 1)]) for name, urls in places.items()}
        try:
            if turn < 0:
                fetched = fetch(waiting, {}, given=given)
            else:
                fetched = fetch(waiting, own | _locate([w for w in waiting if w.index], lock, label, now, runner))
        # It is an EnvmgrError, too, and must not lead to the next place.
        except Interrupted:
            raise
        except EnvmgrError as error:
            if error.reference in _OURS:
                raise
            if turn == turns - 1:
                error.context = (*error.context, *(refused.context if refused else ()))
                raise
            refused = error if turn < 0 else refused
            reporter.say(f"{label}: {error.message}: trying the next place")
            # Some files may have come before the error: they are not fetched again.
            fetched = fetch(waiting, {}, dry=True)
        done |= {file.sha256: replace(file, state="fetched") for file in fetched.files if file.state != "missing"}
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


def locate_files(files: Sequence[LockedFile], lock: WheelSet, label: str, site: Site, runner: Runner) -> dict[str, str]:
    """Map the sha256 of each of the lock's files to its URL, at the first place of its index that has them all.

    Raises EnvmgrError as `fetch_wheels`.
    """
    places = index_places(list(dict.fromkeys(file.index for file in files)), site, {})
    for turn in range(most := max(map(len, places.values()), default=1)):
        now = {name: IndexPlace(name, urls[min(turn, len(urls) - 1)]) for name, urls in places.items()}
        try:
            return _locate(files, lock, label, now, runner)
        except EnvmgrError:
            if turn == most - 1:
                raise
    return {}


def _locate(
    wheels: Sequence[LockedFile], lock: WheelSet, label: str, places: Mapping[str, IndexPlace], runner: Runner
) -> dict[str, str]:
    """Map the sha256 of each wheel to its URL at the place of its index.

    Raises:
        EnvmgrError: `not-found` for those that are nowhere there; or as the index fails.
    """
    found: dict[str, str] = {}
    asked: dict[tuple[str, int], list[LockedFile]] = {}
    # Two groups may have different versions of a package, which uv cannot resolve together.
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
