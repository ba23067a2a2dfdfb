"""The workers that run rattler, and the errors for their failures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from envmgr.downloads.failures import Row, worker_failure
from envmgr.errors import EnvmgrError, InputError
from envmgr.system.child import Event, Failure

SOLVER = "envmgr.backends.conda.solve_worker"
INSTALLER = "envmgr.backends.conda.install_worker"
ADDER = "envmgr.backends.conda.wheels_worker"
_MIRRORS = "backends.conda.channels.<name>.mirrors"
_MIRROR = f"on a machine without network, give the channel a mirror in site.yaml: {_MIRRORS} takes URLs and folders"
# Rattler's errors for a spec, and its words when a transfer failed.
_UNREADABLE = "InvalidMatchSpecError InvalidPackageNameError InvalidVersionError PackageNameMatcherParseError".split()
_TRANSFER = re.compile(
    r"error sending request|dns error|connect|timed out|Request failed|decod|end of file|incomplete|body", re.IGNORECASE
)
UNSOLVABLE = (
    "loosen a spec of the recipe, add a channel, or declare in `virtual_packages` what the nodes have, where a package "
    "asks for `__cuda` and the like"
)
_LACKING = "add a channel that has it; if it is not a conda package, `pip` of the recipe takes it from an index"
_ROWS: Mapping[str, Row] = {
    "Taken": Row(
        "wheel-over-conda",
        "conda's packages have what a wheel brings, too: {what}",
        "wheels only add: take it from one side, by the recipe's `specs` or its `pip`, and lock again",
        ("conda: {package}", "wheel: {wheel}"),
    ),
    "Lacking": Row(
        "conda-lacks",
        "conda's {package} does not bring what its name promises: {what}",
        "the lock took it for granted: leave that package out of `specs`, so that a wheel comes in its place, and lock "
        "again",
    ),
}


def failure_for(label: str) -> Failure:
    """Return the words of a worker that installs packages for the entry `label`, and of their downloads."""
    return partial(worker_failure, label=label, mirrors=_MIRRORS, rows={})


def failure_of_added(label: str) -> Failure:
    """Return the words of the worker that adds wheels, wheels_worker.py."""
    from envmgr.wheels.fetch import wheel_failure  # most installs add no wheels

    return wheel_failure(label, _ROWS)


def solver_failure(event: Event, request: Mapping[str, Any]) -> EnvmgrError:
    """Return the error of a resolution. Rattler's own reasons stay in the context: they are good."""
    message = str(event["message"])
    lines = [line.removeprefix("Caused by: ").rstrip() for line in message.splitlines() if line.strip()]
    url_match = re.search(r"(https?|file)://[^\s)'\"]+", message)
    url = url_match[0] if url_match else ""
    if event["kind"] == "Stalled":
        what, hint = f"a channel stalled: {message}", f"try again later, or use another mirror; {_MIRROR}"
        return EnvmgrError("download-stalled", what, context=_places(request), hint=hint)
    if event["kind"] == "Endless":
        return EnvmgrError(
            "channel-too-large",
            "a channel sends repodata without end",
            context=[*lines[:4], *_places(request)],
            hint="is it a channel? open its URL, or lock against another place of it (`lock --channel "
            "NAME=URL-OR-FOLDER`)",
        )
    if event["kind"] == "Unsolvable":
        reasons = message.removeprefix("Cannot solve the request because of: ").rstrip().splitlines()
        virtual = ", ".join(f"{name} {version}" for name, version in request["virtual_packages"].items())
        asked = [f"specs: {', '.join(request['specs'])}", f"virtual packages: {virtual or 'none'}"]
        lacking = [f"no channel of the recipe has {name}" for name in event["lacking"]]
        context = [*asked, "", *reasons, *lacking]
        hint = _LACKING if lacking else UNSOLVABLE
        return EnvmgrError("unsolvable", "the specs cannot be solved together", context=context, hint=hint)
    if event["kind"] in _UNREADABLE:
        hint = "specs are written like `numpy 1.26.*`"
        return InputError("spec-invalid", "a spec of the recipe cannot be read", context=lines, hint=hint)
    error = worker_failure(event, request, label="ENTRY", mirrors=_MIRRORS, rows={})
    if error.reference == "worker-failed":
        if re.search(r"404|os error 2\)|Not Found|could not find subdir", message):
            hint = f"add a mirror that has it ({_MIRRORS} in site.yaml)"
            return EnvmgrError("not-found", f"nothing at {url or 'the named place'}", context=lines, hint=hint)
        if _TRANSFER.search(message):
            reference = "no-network" if re.search(r"dns error|\(Connect\)|unreachable", message) else "download-failed"
            return EnvmgrError(reference, f"cannot fetch {url or lines[0]}", context=lines, hint=_MIRROR)
    return error


def _places(request: Mapping[str, Any]) -> list[str]:
    return [place for channel in request["channels"] for place in channel["places"]]
