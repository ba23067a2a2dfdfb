"""Sites as tests write them: settings of a backend by their short names."""

from __future__ import annotations

from typing import Any

_PLACES = {
    "channels": ("conda", "channels"),
    "conda": ("conda", "program"),
    "easyconfigs": ("easybuild", "easyconfigs"),
}


def with_backends(site: dict[str, Any]) -> dict[str, Any]:
    """The site file with `channels`, `conda` and `easyconfigs` where they belong: under `backends`."""
    site = dict(site)
    for short, (backend, key) in _PLACES.items():
        if short in site:
            site.setdefault("backends", {}).setdefault(backend, {})[key] = site.pop(short)
    return site
