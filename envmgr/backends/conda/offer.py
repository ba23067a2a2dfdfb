"""What channels offer for names: a part of the rattler worker, asked where a solve fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from envmgr.downloads.child import emit

_BUILDS = 12


async def offer(request: dict[str, Any]) -> None:
    """Emits `solved` with `versions`: name -> [version, builds] pairs, the newest first; `near`: name that is not there -> like names."""
    import rattler

    gateway = rattler.Gateway(
        cache_dir=Path(request["cache"]), default_config=rattler.SourceConfig(sharded_enabled=False)
    )
    sources = [rattler.Channel(channel["places"][0]) for channel in request["channels"]]
    platforms = [request["platform"], "noarch"]
    specs = [rattler.MatchSpec(name) for name in request["names"]]
    found = await gateway.query(sources, platforms, specs, recursive=False) if specs else []
    versions: dict[str, list[tuple[str, list[str]]]] = {}
    records = sorted((r for group in found for r in group), key=lambda r: (r.version, r.build_number), reverse=True)
    for record in records:
        rows = versions.setdefault(record.name.normalized, [])
        if not rows or rows[-1][0] != str(record.version):
            rows.append((str(record.version), []))
        if (build := str(record.build)) not in rows[-1][1] and len(rows[-1][1]) < _BUILDS:
            rows[-1][1].append(build)
    missing = [name for name in request["names"] if name not in versions]
    near: dict[str, list[str]] = {}
    if missing:
        known = sorted({name.normalized for name in await gateway.names(sources, platforms)})
        near = {name: like(name, known) for name in missing}
    emit("solved", versions=versions, near=near)


def like(wanted: str, known: list[str]) -> list[str]:
    """Up to three names: those that are the wanted one with something before or behind it, then those that look like it."""
    from envmgr.catalog.names import nearest

    own = wanted.lower()
    begins = [
        f"{own}-base",
        f"{own}-core",
        f"py{own}",
        f"py-{own}",
        f"python-{own}",
        f"lib{own}",
        own.removeprefix("python-"),
        own.removeprefix("lib"),
    ]
    first = [name for name in dict.fromkeys(begins) if name in known and name != own]
    return list(dict.fromkeys([*first, *nearest(own, known)]))[:3]
