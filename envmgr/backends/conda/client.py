"""Speaks to the rattler worker, whose failures failures.py explains."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from envmgr.backends.conda.failures import failure
from envmgr.downloads import client
from envmgr.downloads.bars import Event
from envmgr.downloads.client import Failure
from envmgr.report import Reporter
from envmgr.system.run import Runner


def call_rattler(
    request: Mapping[str, Any],
    runner: Runner,
    reporter: Reporter,
    *,
    failure: Failure = failure,
    on_event: Callable[[Event], None] = lambda _: None,
    environ: Mapping[str, str] = os.environ,
) -> Event:
    """Run one request to its end and return the `solved` event, or `done`. Raises EnvmgrError: see `failure`."""
    return client.call_worker(
        "envmgr.backends.conda.worker", request, runner, reporter, failure=failure, on_event=on_event, environ=environ
    )
