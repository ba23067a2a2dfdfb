"""The download worker: brings the files of one request into a cache. For its events see child.py and download.py."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from envmgr.downloads.child import cancel_on_sigterm, emit, serve
from envmgr.downloads.download import fetch_all, make_client
from envmgr.downloads.space import require_space


async def fetch(request: dict[str, Any]) -> None:
    """Bring all `records` into `cache`. What one place or one file lacks does not end the others."""
    cancel_on_sigterm()
    records, cache = request["records"], Path(request["cache"])
    await require_space(records, cache, keep_free=request["min_free"], keep=True)
    await fetch_all(
        records,
        cache,
        make_client(request["version"]),
        emit,
        retries=request["retries"],
        stall_timeout=request["stall_timeout"],
        min_free=request["min_free"],
        keep=True,
        to_the_end=True,
    )


if __name__ == "__main__":
    serve(lambda request: asyncio.run(fetch(request)))
