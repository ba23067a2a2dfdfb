"""The worker that downloads files. Its protocol is in system/worker.py."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from envmgr.system.worker import cancel_on_sigterm, emit, serve


async def fetch_request(request: dict[str, Any]) -> None:
    """Bring all `records` into `cache`. What one place or one file lacks does not end the others."""
    from envmgr.downloads.download import fetch_all, make_client
    from envmgr.downloads.space import require_download_space

    cancel_on_sigterm()
    records, cache = request["records"], Path(request["cache"])
    await require_download_space(records, cache, keep_free=request["min_free"], keep=True)
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
    serve(lambda request: asyncio.run(fetch_request(request)))
