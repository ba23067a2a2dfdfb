"""What channels offer for names and specs: a part of the rattler worker, asked where a solve fails."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from envmgr.downloads.child import emit

_BUILDS = 12
# What users call a package -> what conda's channels call it.
_CALLED = {
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "cv2": "py-opencv",
    "opencv-python": "py-opencv",
    "opencv": "py-opencv",
    "pil": "pillow",
    "yaml": "pyyaml",
    "bs4": "beautifulsoup4",
    "torch": "pytorch",
    "tensorflow-gpu": "tensorflow",
    "attr": "attrs",
    "dateutil": "python-dateutil",
    "tables": "pytables",
    "graphviz-python": "python-graphviz",
}


async def offer(request: dict[str, Any]) -> None:
    """Emits `solved` with `versions`: name -> [version, builds] pairs, the newest first; `near`: name that is not there -> like names;
    `unmatched`: the specs that no record fits; `bare`: the channels that have nothing for the platform.
    """
    import rattler
    import rattler.exceptions

    gateway = rattler.Gateway(
        cache_dir=Path(request["cache"]), default_config=rattler.SourceConfig(sharded_enabled=False)
    )
    platforms = [request["platform"], "noarch"]
    sources = [
        rattler.Channel(await _answering(gateway, rattler, channel, platforms)) for channel in request["channels"]
    ]
    found = await gateway.query(sources, platforms, [rattler.MatchSpec(n) for n in request["names"]], recursive=False)
    versions: dict[str, list[tuple[str, list[str]]]] = {}
    records = sorted((r for group in found for r in group), key=lambda r: (r.version, r.build_number), reverse=True)
    for record in records:
        rows = versions.setdefault(record.name.normalized, [])
        if not rows or rows[-1][0] != str(record.version):
            rows.append((str(record.version), []))
        if (build := str(record.build)) not in rows[-1][1] and len(rows[-1][1]) < _BUILDS:
            rows[-1][1].append(build)
    unmatched = []
    for spec in request["specs"]:
        with suppress(Exception):  # one that cannot be read is told elsewhere
            match = rattler.MatchSpec(spec, strict=False)
            if not any(
                match.matches(record) for record in records if record.name.normalized == str(match.name.normalized)
            ):
                unmatched.append(spec)
    missing = [name for name in request["names"] if name not in versions]
    near: dict[str, list[str]] = {}
    bare: list[str] = []
    if missing:
        for channel, source in zip(request["channels"], sources, strict=True):
            if not list(await gateway.names([source], [request["platform"]])):
                bare.append(channel["name"])
        known = sorted({name.normalized for name in await gateway.names(sources, platforms)})
        near = {name: like(name, known) for name in missing}
    emit("solved", versions=versions, near=near, unmatched=unmatched, bare=bare)


async def _answering(gateway: Any, rattler: Any, channel: dict[str, Any], platforms: list[str]) -> str:
    """The first of its places that answers; the last one where none does."""
    place = ""
    for place in channel["places"]:
        try:
            await gateway.names([rattler.Channel(place)], platforms)
        except rattler.exceptions.GatewayError:
            continue
        break
    return place


def like(wanted: str, known: list[str]) -> list[str]:
    """Up to three names: what it is called here, what has something before or behind it, and what looks very much like it."""
    from difflib import get_close_matches

    own = wanted.lower()
    first = [
        _CALLED.get(own, ""),
        f"{own}-base",
        f"{own}-core",
        f"py{own}",
        f"py-{own}",
        f"python-{own}",
        f"lib{own}",
        own.removeprefix("python-"),
        own.removeprefix("lib"),
        own.removeprefix("py"),
        own.replace("_", "-"),
        own.replace("-", "_"),
    ]
    there = set(known)
    begins = sorted((name for name in known if len(own) > 3 and name.startswith(f"{own}-")), key=len)
    close = [*begins, *get_close_matches(own, known, n=3, cutoff=0.84)]
    return list(dict.fromkeys(name for name in (*first, *close) if name in there and name != own))[:3]
