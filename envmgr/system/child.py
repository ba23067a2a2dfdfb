"""Processes of envmgr's own: how they are started, what of the caller's shell they get, what they report.

A worker gets one request and reports events as it goes; `system/worker.py` is its own side of that. What runs a
stranger's code as another user is asked with `Runner.run`, which guards it, and shares the rest.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import envmgr
from envmgr.errors import EnvmgrError, ending
from envmgr.report import Reporter
from envmgr.system.run import Runner, clean_env
from envmgr.system.usernames import own_home

# -P and a small environment would hide an envmgr that runs from its source tree.
OWN_SOURCE = {"PYTHONPATH": str(Path(envmgr.__file__).resolve().parent.parent), "PYTHONUNBUFFERED": "1"}
NETWORK = ("*_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""The variables by which programs reach a network through the site's proxies, and trust its certificates."""

Event = dict[str, Any]
Failure = Callable[[Event, Mapping[str, Any]], EnvmgrError]  # an `error` event and its request, in the house form


def call_worker(
    module: str,
    request: Mapping[str, Any],
    runner: Runner,
    reporter: Reporter,
    *,
    failure: Failure,
    on_event: Callable[[Event], None] = lambda _: None,
    name: str = "rattler",
) -> Event:
    """Run one request to its end and return the `solved` event, or `done`. The request has a `cache`; `name` is the
    worker's.

    Only `done` counts, and not what follows it: rattler can crash at interpreter exit, and its threads may write late.

    Raises:
        EnvmgrError: see `failure`; `worker-died`.
    """
    told: dict[str, Event] = {}  # by kind, the last of each

    def on_line(line: str) -> None:
        event = json.loads(line)
        if event["event"] not in ("download", "compile"):
            reporter.log(f"worker: {line[:2000]}")
        if "done" not in told:
            told[event["event"]] = event
            on_event(event)

    done = runner.stream(
        python_module(module),
        stdin=json.dumps({**request, "version": envmgr.__version__}) + "\n",
        on_line=on_line,
        env=_environment(Path(str(request["cache"]))),
    )
    if done.stderr.strip():
        reporter.log(f"worker stderr: {done.stderr.strip()[-4000:]}")
    if "done" in told:
        return told.get("solved", told["done"])
    if "error" in told:
        raise failure(told["error"], request)
    raise EnvmgrError(
        "worker-died",
        f"the {name} worker {ending(done.returncode)} before it was done",
        context=done.stderr.strip().splitlines()[-5:],
        hint="run the same command again: what was downloaded is kept",
    )


def python_module(module: str) -> list[str]:
    """Return the command that runs a module of envmgr, with nothing of the user's own Python or folder in its way."""
    # -s leaves out ~/.local, and -P the working folder: a file there could have the name of a module.
    return [sys.executable, "-s", "-P", "-m", module]


def passed(environ: Mapping[str, str], *patterns: str) -> dict[str, str]:
    """Return the variables of the caller's shell that a child gets: names that fit a pattern, in any case."""
    return {key: value for key, value in environ.items() if any(fnmatchcase(key.upper(), p) for p in patterns)}


def _environment(cache: Path) -> dict[str, str]:
    """Return the worker's environment: of the caller's shell, only proxies, certificates and credentials."""
    home = own_home(os.environ.get("HOME"))  # rattler looks for credentials there, and fails without one
    own = passed(os.environ, *NETWORK, "RATTLER_AUTH_FILE")
    return clean_env(HOME=home, RATTLER_CACHE_DIR=str(cache), **OWN_SOURCE, **own)
