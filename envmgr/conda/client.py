"""Speaks to the rattler worker: starts it, follows its events, raises readable errors for its failures."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import envmgr
from envmgr.conda.failures import failure
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.run import Runner, clean_env

Event = dict[str, Any]


def call_worker(
    request: Mapping[str, Any],
    runner: Runner,
    reporter: Reporter,
    *,
    on_event: Callable[[Event], None] = lambda _: None,
    environ: Mapping[str, str] = os.environ,
) -> Event:
    """Run one request to its end and return the `solved` event, or `done`.

    A death by signal after `done` is success (rattler can crash at interpreter exit).

    Raises:
        EnvmgrError: see `failure`.
    """
    last: Event = {}
    result: Event = {}

    def on_line(line: str) -> None:
        nonlocal last, result
        last = json.loads(line)
        if last["event"] in ("solved", "error"):
            result = last
        if last["event"] not in ("download", "compile"):
            reporter.log(f"worker: {line[:2000]}")
        on_event(last)

    done = runner.stream(
        [sys.executable, "-s", "-P", "-m", "envmgr.conda.worker"],
        stdin=json.dumps({**request, "version": envmgr.__version__}) + "\n",
        on_line=on_line,
        env=_environment(environ, Path(str(request["cache"]))),
    )
    if done.stderr.strip():
        reporter.log(f"worker stderr: {done.stderr.strip()[-4000:]}")
    if last.get("event") == "done":
        return result or last
    if result.get("event") == "error":
        raise failure(result, request)
    raise EnvmgrError(
        "worker-died",
        f"the rattler worker {_end(done.returncode)} before it was done",
        context=done.stderr.strip().splitlines()[-5:],
        hint="run the same command again: what was downloaded is kept",
    )


def _end(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    return f"was ended by {name}{' (out of memory?)' if -status == signal.SIGKILL else ''}"


def _environment(environ: Mapping[str, str], cache: Path) -> dict[str, str]:
    """Proxies, certificates and credentials pass; nothing else of the caller's shell does."""
    names = {"SSL_CERT_FILE", "SSL_CERT_DIR", "RATTLER_AUTH_FILE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
    passed = {key: value for key, value in environ.items() if key.upper() in names}
    root = str(Path(envmgr.__file__).resolve().parent.parent)
    return clean_env(RATTLER_CACHE_DIR=str(cache), PYTHONPATH=root, PYTHONUNBUFFERED="1", **passed)
