"""The rattler worker, which solves, and installs what it downloads. Its protocol is in system/worker.py.

Events: `solved`, `download`, `downloaded`, `cached`, `retry`, `total`, `linked`, `compiling`, `compile`, `compiled`,
`done`, `error`.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import json
import os
import resource
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from envmgr.store.bytecode import compile_python
from envmgr.system.worker import cancel_on_sigterm, emit, serve
from envmgr.wording import size_text

_LINKED_FROM = ".unpacked"
"""Folder inside a staging folder, from which files are linked."""
_LEAST_RATE = 1024  # bytes per second, averaged over the stall timeout
_MOST_READ = 4 << 30  # bytes of unpacked repodata; the largest channels have a tenth of that
_MOST_OF_DISK = 0.9  # share of the space that is free below the scratch folder at the start
_MEMORY = 8 << 30  # bytes of data in a solve
_BUSY = 0.1  # share of one core from which a solve counts as computing


class InstallEvents:
    """A reporter for rattler: it emits the number of packages, and each one that is linked. The other hooks must
    exist.
    """

    def __init__(self) -> None:
        self._links: list[str] = []

    def on_transaction_start(self, total_operations: int) -> None:
        emit("total", packages=total_operations)

    def on_link_start(self, operation: int, package_name: str) -> int:  # noqa: ARG002 - rattler's signature
        self._links.append(package_name)
        return len(self._links) - 1

    def on_link_complete(self, index: int) -> None:
        emit("linked", name=self._links[index])

    def _nothing(self, *_: object) -> int:
        return 0

    on_transaction_operation_start = on_transaction_operation_complete = on_transaction_complete = _nothing
    on_populate_cache_start = on_populate_cache_complete = on_validate_start = on_validate_complete = _nothing
    on_download_start = on_download_progress = on_download_completed = _nothing
    on_unlink_start = on_unlink_complete = on_post_link_start = on_post_link_complete = _nothing
    on_pre_unlink_start = on_pre_unlink_complete = _nothing


async def solve(request: dict[str, Any]) -> None:
    """Solve `specs` against each channel's first place that answers; with `urls`, look those records up instead."""
    import rattler
    import rattler.exceptions

    gateway = rattler.Gateway(
        cache_dir=request["cache"],
        default_config=rattler.SourceConfig(sharded_enabled=False),  # conda/rattler#2719: fails on plain HTTP mirrors
    )
    platforms = [request["platform"], "noarch"]
    places = {c["name"]: list(c["places"]) for c in request["channels"]}
    tried: list[str] = []
    while True:
        sources = [rattler.Channel(places[c["name"]][0]) for c in request["channels"]]
        try:
            if request.get("urls"):
                names = [rattler.MatchSpec(n) for n in request["names"]]
                found = await gateway.query(sources, platforms, names, recursive=False)
                wanted = set(request["urls"])
                records = [r for group in found for r in group if canonical(r.url, request) in wanted]
            else:
                records = await rattler.solve(
                    sources,
                    [match_spec(rattler, s) for s in request["specs"]],
                    gateway=gateway,
                    platforms=platforms,
                    virtual_packages=[virtual(rattler, n, v) for n, v in request["virtual_packages"].items()],
                )
            break
        except rattler.exceptions.GatewayError as error:
            message = str(error)
            broken = next((n for n, ps in places.items() if ps[0].rstrip("/") in message), None)
            if broken is None:
                raise
            tried.append(message)
            if len(places[broken]) == 1:
                raise NetworkError("\n".join(tried)) from None
            emit("retry", message=message, place=places[broken].pop(0))
    emit(
        "solved",
        records=[{**json.loads(r.to_json()), "url": canonical(r.url, request)} for r in records],
        places={name: ps[0] for name, ps in places.items()},
        repodata={name: snapshot_digests(ps[0], platforms) for name, ps in places.items()},
        solver=f"rattler {rattler.__version__}",
    )


class NetworkError(Exception):
    """No place of a channel answered."""


def bound_solve(cache: Path, timeout: float) -> None:
    """Limit the memory of a solve, and the disk space for the repodata that rattler keeps in `cache`.

    End the worker, with an event, when a solve neither reads nor computes for `timeout` seconds, or reads so little
    that it would take hours. Rattler itself would wait.
    """
    pause = min(1.0, timeout / 4)
    free = shutil.disk_usage(cache).free
    least = free * (1 - _MOST_OF_DISK)
    # The limit per file: a fast server fills a small disk between two checks. Two files may come at once.
    for kind, most in (
        (resource.RLIMIT_DATA, _MEMORY),
        (resource.RLIMIT_FSIZE, min(_MOST_READ, int(free - least) // 2)),
    ):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))

    def watch() -> None:
        cpu, size, moved = time.process_time(), 0, time.monotonic()
        began, before = moved, 0  # start of a period in which little came
        while True:
            time.sleep(pause)
            now = time.monotonic()
            with suppress(OSError):  # a file was removed during the check
                read = sum(p.stat().st_size for p in cache.rglob("*") if p.is_file())
                used = time.process_time() - cpu
                computes = used > _BUSY * pause  # this thread itself uses far less
                if read != size or computes:
                    moved = now
                if computes or not read or read < before or read - before >= _LEAST_RATE * timeout:
                    began, before = now, read
                size, cpu = read, cpu + used
            if size > _MOST_READ or shutil.disk_usage(cache).free < least:
                emit("error", kind="Endless", message=f"{size_text(size)} of repodata came")
                os._exit(1)
            if now - moved > timeout:
                said = f"no byte for {timeout:g} s"
            elif now - began > timeout:
                said = f"{size_text(size - before)} in {timeout:g} s"
            else:
                continue
            emit("error", kind="Stalled", message=said)
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def match_spec(rattler: Any, text: str) -> Any:
    """Read one spec, and name it in the error, which rattler does not."""
    try:
        return rattler.MatchSpec(text, strict=False)
    except Exception as error:  # noqa: BLE001 - it is raised again, with the spec in its text
        raise type(error)(f"`{text}`: {error}") from None


def virtual(rattler: Any, name: str, text: str) -> Any:
    version, _, build = text.partition(" ")
    return rattler.GenericVirtualPackage(
        rattler.PackageName(name), rattler.Version(version), rattler.BuildString(build or "0")
    )


def canonical(url: str, request: dict[str, Any]) -> str:
    """Return a record's URL as locks write it, wherever its repodata was read.

    The longest matching place is used, because one place may lie in another.
    """
    fits = [
        (place.rstrip("/"), str(channel["url"]).rstrip("/"))
        for channel in request["channels"]
        for place in channel["places"]
        if url.startswith(place.rstrip("/") + "/")
    ]
    place, home = max(fits, key=lambda fit: len(fit[0]), default=("", ""))
    return home + url[len(place) :]


def snapshot_digests(place: str, platforms: list[str]) -> dict[str, str]:
    """Return subdir -> sha256 of repodata.json for a folder; empty for a place on the network."""
    parts = urlsplit(place)
    if parts.scheme != "file":
        return {}
    files = {s: Path(unquote(parts.path)) / s / "repodata.json" for s in platforms}
    return {s: hashlib.sha256(f.read_bytes()).hexdigest() for s, f in files.items() if f.is_file()}


async def install(request: dict[str, Any]) -> None:
    """Fetch and check the archives of `records`, unpack and link them into `staging`, with `final` written into the
    files.

    Unpacked packages lie inside the staging folder, in _LINKED_FROM, and are removed before a user sees it. Linking
    therefore costs nothing, and no two installs share a file.
    """
    from envmgr.backends.conda.layout import normalise_meta
    from envmgr.backends.conda.spec_parts import require_answer
    from envmgr.downloads.download import fetch_all, make_client
    from envmgr.downloads.space import require_download_space

    cancel_on_sigterm()
    importing = asyncio.create_task(asyncio.to_thread(importlib.import_module, "rattler"))  # during the downloads
    await require_download_space(
        request["records"], Path(request["cache"]), keep_free=request["min_free"], unpacked=request["unpacked"]
    )
    places = await fetch_all(
        request["records"],
        Path(request["cache"]),
        make_client(request["version"]),
        emit,
        retries=request["retries"],
        stall_timeout=request["stall_timeout"],
        min_free=request["min_free"],
    )
    archives = {r["name"]: place for r, place in zip(request["records"], places, strict=True)}
    files = {name: Path(unquote(urlsplit(url).path)) for name, url in archives.items()}
    staging = Path(request["staging"])
    rattler: Any = await importing
    await asyncio.to_thread(require_answer, files, request)
    await rattler.install(
        [to_record(rattler, r, archives[r["name"]]) for r in request["records"]],
        staging,
        cache_dir=staging / _LINKED_FROM,
        platform=rattler.Subdir(request["platform"]),
        installed_packages=[],
        reporter=InstallEvents(),
        alternative_target_prefix=request["final"],
        show_progress=False,
    )
    await asyncio.to_thread(normalise_meta, staging, request["records"], files)


def to_record(rattler: Any, data: dict[str, Any], place: str) -> Any:
    package = rattler.PackageRecord(
        name=data["name"],
        version=data["version"],
        build=rattler.BuildString.new_unchecked(data["build"]),
        build_number=data["build_number"],
        subdir=data["subdir"],
        noarch=data.get("noarch"),
        depends=list(data.get("depends", ())),
        constrains=list(data.get("constrains", ())),
        sha256=bytes.fromhex(data["sha256"]),
        md5=bytes.fromhex(data["md5"]) if data.get("md5") else None,
        size=data.get("size"),
        license=data.get("license"),
        python_site_packages_path=data.get("python_site_packages_path"),
    )
    return rattler.RepoDataRecord(package, data["url"].rpartition("/")[2], place, data["url"].rsplit("/", 2)[0])


def compile_beside_removal(staging: Path, final: str, jobs: int) -> None:
    """Remove the unpacked packages (disk-bound) while compiling to byte code (processor-bound).

    Raises:
        ChildProcessError: see `compile_python`; compilation had all the free space.
        OSError: something could not be removed.
    """
    unpacked = staging / _LINKED_FROM
    makes_room = any(unpacked.iterdir())
    with ThreadPoolExecutor(1) as pool:
        removal = pool.submit(shutil.rmtree, unpacked)
        try:
            compile_python(staging, final, jobs, emit)
        except ChildProcessError:  # the disk may have been full of what was being removed
            removal.result()
            if not makes_room:
                raise
            compile_python(staging, final, jobs, emit)
    removal.result()


def work(request: dict[str, Any]) -> None:
    if request["op"] == "solve":
        bound_solve(Path(request["cache"]), request["stall_timeout"])
        asyncio.run(solve(request))
    elif request["op"] == "offer":
        from envmgr.backends.conda.offer import offer

        bound_solve(Path(request["cache"]), request["stall_timeout"])
        asyncio.run(offer(request))
    else:
        asyncio.run(install(request))
        staging = Path(request["staging"])
        if request.get("more"):  # wheels follow, and are compiled with everything else: add.py
            shutil.rmtree(staging / _LINKED_FROM)
        else:
            compile_beside_removal(staging, request["final"], request["jobs"])


if __name__ == "__main__":
    serve(work)
