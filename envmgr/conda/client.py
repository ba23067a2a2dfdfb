"""Speaks to the rattler worker: starts it, follows its events, tells a stalled transfer, makes readable errors of its failures."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import envmgr
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.run import Runner, clean_env

Event = dict[str, Any]


class StalledError(EnvmgrError):
    """No byte arrived for the site's `stall_timeout`."""


def call_worker(
    request: Mapping[str, Any],
    runner: Runner,
    reporter: Reporter,
    *,
    on_event: Callable[[Event], None] = lambda _: None,
    stall_timeout: float | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Event:
    """Run one request to its end and return the `solved` event, or `done`.

    A death by signal after `done` is success (rattler can crash at interpreter exit). `stall_timeout` is seconds without
    progress while a download is under way.

    Raises:
        EnvmgrError: see `failure`; StalledError.
    """
    last: Event = {}
    result: Event = {}
    downloads: set[int] = set()
    moved = time.monotonic()
    current = ""

    def on_line(line: str) -> None:
        nonlocal last, result, moved, current
        event: Event = json.loads(line)
        last, moved = event, time.monotonic()
        match event["event"]:
            case "solved":
                result = event
            case "download":
                downloads.add(event["index"])
                current = event["name"]
            case "downloaded":
                downloads.discard(event["index"])
            case "error":
                result = event
        if event["event"] != "download":
            reporter.log(f"worker: {line[:2000]}")
        on_event(event)

    def on_tick() -> None:
        if stall_timeout is not None and downloads and time.monotonic() - moved > stall_timeout:
            raise StalledError(
                "download-stalled",
                f"no byte of {current} arrived for {stall_timeout:g} s",
                hint="try again later, or name a mirror for its channel in site.yaml (channels.<name>.mirrors)",
            )

    done = runner.stream(
        [sys.executable, "-s", "-P", "-m", "envmgr.conda.worker"],
        stdin=json.dumps({**request, "version": envmgr.__version__}) + "\n",
        on_line=on_line,
        on_tick=on_tick,
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
        f"the rattler worker ended with status {done.returncode} before it was done",
        context=done.stderr.strip().splitlines()[-5:],
        hint="run the same command again: what was downloaded is kept",
    )


def _environment(environ: Mapping[str, str], cache: Path) -> dict[str, str]:
    """Proxies, certificates and credentials pass; nothing else of the caller's shell does."""
    names = {"SSL_CERT_FILE", "SSL_CERT_DIR", "RATTLER_AUTH_FILE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
    passed = {key: value for key, value in environ.items() if key.upper() in names}
    root = str(Path(envmgr.__file__).resolve().parent.parent)
    return clean_env(RATTLER_CACHE_DIR=str(cache), PYTHONPATH=root, PYTHONUNBUFFERED="1", **passed)


def failure(event: Mapping[str, Any], request: Mapping[str, Any]) -> EnvmgrError:
    """The house form of what rattler said. Its own reasons stay in the context: they are good."""
    message = str(event["message"])
    lines = [line.removeprefix("Caused by: ").rstrip() for line in message.splitlines() if line.strip()]
    url_match = re.search(r"(https?|file)://[^\s)'\"]+", message)
    url = url_match[0] if url_match else ""
    if event["kind"] == "SolverError":
        reasons = message.removeprefix("Cannot solve the request because of: ").rstrip().splitlines()
        return EnvmgrError(
            "unsolvable", "the specs cannot be solved together", context=[*_specs(request), "", *reasons],
            hint="loosen a spec of the recipe, add a channel, or declare the virtual package it asks for",
        )  # fmt: skip
    if event["kind"] in (
        "InvalidMatchSpecError",
        "InvalidPackageNameError",
        "InvalidVersionError",
        "PackageNameMatcherParseError",
    ):
        return EnvmgrError(
            "spec-invalid",
            "a spec of the recipe cannot be read",
            context=lines,
            hint="specs are written like `numpy 1.26.*`",
        )
    if "No space left" in message or "os error 28" in message:
        return EnvmgrError(
            "disk-full", f"no space left under {request.get('staging', request['cache'])}", context=lines[:2],
            hint="free some space (`envmgr gc` removes old generations and unused installs), then run the same command again",
        )  # fmt: skip
    if "Permission denied" in message:
        return EnvmgrError(
            "not-writable", "a file cannot be written", context=lines, hint="run as the site's build user"
        )
    if re.search(r"hash mismatch|sha256|md5|digest", message, re.IGNORECASE):
        return EnvmgrError(
            "wrong-sha256", f"{lines[0]}: what arrived is not what the lock names", context=lines[1:],
            hint="the mirror's file is damaged or was replaced: compare it with the channel's, or lock again if the channel rebuilt it",
        )  # fmt: skip
    if re.search(r"404|os error 2\)|Not Found|could not find subdir", message):
        return EnvmgrError(
            "not-found", f"nothing at {url or 'the named place'}", context=lines,
            hint="the channel or mirror no longer has it: add a mirror that does (channels.<name>.mirrors in site.yaml), or lock again",
        )  # fmt: skip
    if re.search(
        r"error sending request|dns error|connect|timed out|Request failed|decod|end of file|incomplete|body",
        message,
        re.IGNORECASE,
    ):
        return EnvmgrError(
            "no-network" if re.search(r"dns error|\(Connect\)|unreachable", message) else "download-failed",
            f"cannot fetch {url or lines[0]}", context=lines,
            hint="on a machine without network, give the channel a mirror in site.yaml: channels.<name>.mirrors takes URLs and folders",
        )  # fmt: skip
    if event["kind"] in ("InstallerError", "GatewayError", "ChildProcessError", "NetworkError"):
        return EnvmgrError("install-failed", lines[0] if lines else "rattler failed", context=lines[1:])
    return EnvmgrError("worker-failed", f"{event['kind']} in the rattler worker", context=lines)


def _specs(request: Mapping[str, Any]) -> list[str]:
    virtual = ", ".join(f"{k} {v}" for k, v in request.get("virtual_packages", {}).items())
    return [f"specs: {', '.join(request.get('specs', ()))}", f"virtual packages: {virtual or 'none'}"]
