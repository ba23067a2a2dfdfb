"""The channels' offers for names and specs: a part of the rattler worker, used when a solve fails."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from envmgr.system.worker import emit

_BUILDS = 12
# Users' name of a package -> its name in conda's channels.
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
    """Emit `solved` with `versions`, `near`, `unmatched` and `bare`.

    `versions` maps name -> [version, builds] pairs, newest first. `near` maps a missing name -> similar names.
    `unmatched` are the specs that no record fits. `bare` are the channels that have nothing for the platform.
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
        with suppress(Exception):  # a spec that cannot be read is reported elsewhere
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
    """Return the first of the channel's places that answers; the last one if none does."""
    place = ""
    for place in channel["places"]:
        try:
            await gateway.names([rattler.Channel(place)], platforms)
        except rattler.exceptions.GatewayError:
            continue
        break
    return place


def like(wanted: str, known: list[str]) -> list[str]:
    """Return up to three names: the package's name here, names with a prefix or suffix, and names that look very
    similar.
    """
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
