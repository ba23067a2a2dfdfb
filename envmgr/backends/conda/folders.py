"""conda's own folder below the prefix."""

from __future__ import annotations

from pathlib import Path

from envmgr.store.prefix import Prefix


def package_cache(prefix: Prefix) -> Path:
    """Packages, as they were downloaded: `<sha256>/<file name>`."""
    return prefix.cache / "conda"
