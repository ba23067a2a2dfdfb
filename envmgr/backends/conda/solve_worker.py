"""The worker that solves with rattler.

Its protocol is in system/worker.py. Events: `solved`, `retry`, `done`, `error`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from envmgr.system.worker import emit, serve
from envmgr.wording import size_text

_LEAST_RATE = 1024  # bytes per second, averaged over the stall timeout
MOST_READ = 4 << 30  # bytes of unpacked repodata; the largest channels have a tenth of that
_BUSY = 0.1  # share of one core from which a solve counts as computing


async def solve_specs(request: dict[str, Any]) -> None:
    """Solve `specs` against each channel's first place that answers; with `urls`, look those records up instead."""
    import rattler
    import rattler.exceptions

    gateway = open_gateway(rattler, request)
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
                records = await solve_once(rattler, request, sources, gateway)
            break
        except rattler.exceptions.SolverError as error:
            raise Unsolvable(
                str(error), await _lacking(gateway, rattler, sources, platforms, request["specs"])
            ) from None
        except rattler.exceptions.GatewayError as error:
            message = str(error)
            broken = next((n for n, ps in places.items() if ps[0].rstrip("/") in message), None)
            if broken is None:
                raise
            tried.append(message)
            if len(places[broken]) == 1:
                raise NetworkError("\n".join(tried)) from None
            emit("retry", message=message, place=places[broken].pop(0))
    found = [{**json.loads(r.to_json()), "url": canonical(r.url, request)} for r in records]
    write_plain_needs(rattler, found, request["specs"])
    emit(
        "solved",
        records=found,
        places={name: ps[0] for name, ps in places.items()},
        repodata={name: snapshot_digests(ps[0], platforms) for name, ps in places.items()},
    )


async def solve_once(rattler: Any, request: dict[str, Any], sources: list[Any], gateway: Any) -> list[Any]:
    """Return the records of a solution. With `upgrade`, the `kept` (name -> URL) stay as the channels list them now, if
    they fit.
    """
    solve = partial(
        rattler.solve,
        sources,
        [match_spec(rattler, s) for s in request["specs"]],
        gateway=gateway,
        platforms=[request["platform"], "noarch"],
        virtual_packages=[virtual(rattler, n, v) for n, v in request["virtual_packages"].items()],
    )
    records = await solve(constraints=request["constraints"])
    if request["kept"]:
        # The solver may rather leave a package old than change what is kept.
        moved = [r for r in records if r.name.normalized in request["upgrade"]]
        asked = [rattler.MatchSpec(name) for name in request["kept"]]
        groups = await gateway.query(sources, [request["platform"], "noarch"], asked, recursive=False)
        kept = {*request["kept"].values()}
        records = await solve(
            constraints=[f"{r.name.normalized} =={r.version} {r.build}" for r in moved],
            locked_packages=[r for group in groups for r in group if canonical(r.url, request) in kept],
        )
    return list(records)


def open_gateway(rattler: Any, request: dict[str, Any]) -> Any:
    plain = rattler.SourceConfig(sharded_enabled=False)  # conda/rattler#2719: shards fail on plain HTTP mirrors
    return rattler.Gateway(cache_dir=request["cache"], default_config=plain)


class NetworkError(Exception):
    """No place of a channel answered."""


class Unsolvable(Exception):  # noqa: N818 - the name states the fault
    """The specs have no solution. `details` has `lacking`, the names of specs that no channel has."""

    def __init__(self, message: str, lacking: list[str]) -> None:
        super().__init__(message)
        self.details = {"lacking": lacking}


async def _lacking(gateway: Any, rattler: Any, sources: list[Any], platforms: list[str], specs: list[str]) -> list[str]:
    names = [match_spec(rattler, spec).name.normalized for spec in specs]
    real = [name for name in names if not name.startswith("__")]
    found = await gateway.query(sources, platforms, [rattler.MatchSpec(name) for name in real], recursive=False)
    there = {record.name.normalized for group in found for record in group}
    return [name for name in real if name not in there]


def bound_solve(cache: Path, timeout: float) -> None:
    """End the worker, with an event, when a solve neither computes nor reads enough in `timeout` seconds, or when the
    repodata that rattler keeps in `cache` grows without end. Rattler itself would wait, and go on.
    """
    pause = min(1.0, timeout / 4)

    def watch() -> None:
        cpu, began, before = time.process_time(), time.monotonic(), 0  # of a period in which little came
        while True:
            time.sleep(pause)
            now, used = time.monotonic(), time.process_time()
            read = before
            with suppress(OSError):  # a file was removed during the check
                read = sum(p.stat().st_size for p in cache.rglob("*") if p.is_file())
            # This thread itself uses far less.
            if used - cpu > _BUSY * pause or abs(read - before) >= _LEAST_RATE * timeout:
                began, before = now, read
            cpu = used
            if read > MOST_READ:
                emit("error", kind="Endless", message=f"{size_text(read)} of repodata came")
            elif now - began > timeout:
                emit("error", kind="Stalled", message=f"{size_text(max(0, read - before))} in {timeout:g} s")
            else:
                continue
            # An exception would only end this thread, and rattler would go on.
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def match_spec(rattler: Any, text: str) -> Any:
    """Read one spec, and name it in the error, which rattler does not."""
    try:
        return rattler.MatchSpec(text, strict=False)
    except Exception as error:  # noqa: BLE001 - it is raised again, with the spec in its text
        raise type(error)(f"`{text}`: {error}") from None


def write_plain_needs(rattler: Any, records: list[dict[str, Any]], specs: Iterable[str]) -> None:
    """Write the needs of a solution as plain rows of name, version and build: what holds of conditions, extras and
    flags. Without this, no other reader of a lock would understand them. Source: CEP 43, 44, 45.
    """
    own = {record["name"]: record for record in records}
    waiting, seen = [*specs, *(row for record in records for row in record.get("depends", ()))], set[tuple[str, str]]()
    while waiting:
        if "[" not in (row := waiting.pop()):
            continue
        spec = match_spec(rattler, row)
        name = spec.name.normalized
        record = own.get(name, {})
        for extra in spec.extras or ():
            if (name, extra) not in seen:
                seen.add((name, extra))
                more = record.get("extra_depends", {}).get(extra, [])
                record["depends"] = [*record.get("depends", ()), *more]
                waiting += more
    for record in records:
        rows = (_plain(rattler, row, own) for row in record.get("depends", ()))
        record["depends"] = [row for row in rows if row]


def _plain(rattler: Any, row: str, there: Collection[str]) -> str:
    """Return the row without what only rattler reads; empty if its package is not `there`, so that its condition does
    not hold.
    """
    if "[" not in row:
        return row
    spec = match_spec(rattler, row)
    name, version, build = spec.name.normalized, str(spec.version or "*"), spec.build
    if name not in there and not name.startswith("__"):
        return ""
    return f"{name} {version} {build}" if build else f"{name} {version}"


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


def solve(request: dict[str, Any]) -> None:
    bound_solve(Path(request["cache"]), request["stall_timeout"])
    asyncio.run(solve_specs(request))


if __name__ == "__main__":
    serve(solve)
