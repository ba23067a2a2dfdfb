"""The backend's own folder below the prefix."""

from __future__ import annotations

from pathlib import Path

from envmgr.store.prefix import Prefix


def wheel_cache(prefix: Prefix) -> Path:
    """Wheels, as they were downloaded: `<sha256>/<file name>`."""
    return prefix.cache / "wheels"
