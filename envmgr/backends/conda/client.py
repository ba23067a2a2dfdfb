"""The workers that run rattler, and the errors for their failures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from envmgr.backends.conda.models import CondaSettings, channels_of
from envmgr.catalog.entries import open_catalog
from envmgr.catalog.names import parse_entry
from envmgr.catalog.settings import backend_settings
from envmgr.catalog.site import Site
from envmgr.downloads.failures import disk_failure, download_failure
from envmgr.errors import EnvmgrError, InputError
from envmgr.system.child import Failure
from envmgr.system.files import free_bytes
from envmgr.wording import size_text

SOLVER = "envmgr.backends.conda.solve_worker"
INSTALLER = "envmgr.backends.conda.install_worker"
ADDER = "envmgr.backends.conda.wheels_worker"
_NEARLY_FULL = 1 << 20  # bytes; more than the part of a file that may be missing without a report
_MIRROR = (
    "on a machine without network, give the channel a mirror in site.yaml: "
    "backends.conda.channels.<name>.mirrors takes URLs and folders"
)
_WAYS = "without this network, packages can come from a mirror or from a carried cache:"
_WITHOUT_NETWORK = {"no-network": _WAYS, "download-stalled": f"try again later; {_WAYS}"}
_AGAIN = (
    "what was fetched is kept: run the same command again, or use another mirror "
    "(backends.conda.channels.<name>.mirrors in site.yaml)"
)
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
# The kind of the last place's fault -> reference and hint.
_DOWNLOADS = {
    "unreachable": ("no-network", _MIRROR),
    "not-found": (
        "not-found",
        (
            "the channel or mirror no longer has it: add a mirror that does (backends.conda.channels.<name>.mirrors in "
            "site.yaml), or lock again"
        ),
    ),
    "stalled": ("download-stalled", f"try again later, or use another mirror; {_MIRROR.partition(', ')[2]}"),
    "sha256": (
        "wrong-sha256",
        (
            "the file there is damaged or was replaced: compare it with the channel's, or lock again if the "
            "channel rebuilt it"
        ),
    ),
    "refused": (
        "download-refused",
        "the server wants a login, or forbids it: see RATTLER_AUTH_FILE, or use another mirror",
    ),
}


def failure_for(entry: str, site: Site) -> Failure:
    """Return `failure` with a hint on how this entry's packages reach a site that has no access to their channels."""

    def explain(event: Mapping[str, Any], request: Mapping[str, Any]) -> EnvmgrError:
        error = failure(event, request)
        if event["kind"] == "DownloadError" and error.reference in _WITHOUT_NETWORK:
            # The package's own URL is the last place, after all mirrors.
            own_url = str(event["failed"][0]["reasons"][-1][0])
            error.hint = "\n  ".join([_WITHOUT_NETWORK[error.reference], *_other_ways(own_url, entry, site)])
        return error

    return explain


def _other_ways(url: str, entry: str, site: Site) -> Iterator[str]:
    """Yield lines on a mirror and on a carried cache.

    `url` is a package's own, as the lock has it: its channel is two levels above.
    """
    channel = url.rsplit("/", 2)[0]
    name = next((n for n, c in channels_of(site).items() if c.url == channel), channel.rpartition("/")[2])
    where = str(site.source) if site.source else "a site.yaml (`envmgr init site` writes one)"
    if name in backend_settings(site, "conda", CondaSettings).channels:
        yield (
            f"add a mirror that can be reached to backends.conda.channels.{name}.mirrors in {where}: a URL, or a folder"
        )
    else:
        yield f"name a mirror in {where}, a URL or a folder that has the files in linux-64/ and noarch/, as"
        yield f"  `backends: {{conda: {{channels: {{{name}: {{url: {channel}, mirrors: [/path/to/mirror]}}}}}}}}`"
    yield (
        f"or run `envmgr fetch {entry}` on a machine with a network and the same catalog, bring the folder "
        "`cache` of its prefix, and run"
    )
    yield f"  `envmgr fetch {entry} --file /path/to/cache`: a build needs no network then"
    if others := _from_elsewhere(entry, site):
        yield f"or build {' or '.join(others)}, which comes from elsewhere"


def _from_elsewhere(entry: str, site: Site) -> list[str]:
    """Return the entries of the same name that do not come from a channel."""
    name = parse_entry(entry).name
    found = []
    for other in open_catalog(site).entries():
        with suppress(EnvmgrError):  # faults of its recipe are reported where it is checked
            if other.entry.name == name and str(other.entry) != entry and other.recipe().backend != "conda":
                found.append(str(other.entry))
    return found


def failure(event: Mapping[str, Any], request: Mapping[str, Any]) -> EnvmgrError:
    """Return rattler's error as an EnvmgrError. Rattler's own reasons stay in the context: they are good."""
    message = str(event["message"])
    lines = [line.removeprefix("Caused by: ").rstrip() for line in message.splitlines() if line.strip()]
    url_match = re.search(r"(https?|file)://[^\s)'\"]+", message)
    url = url_match[0] if url_match else ""
    if event["kind"] == "DownloadError":
        return download_failure(event, _DOWNLOADS, again=_AGAIN)
    if event["kind"] == "Stalled":
        reference, hint = _DOWNLOADS["stalled"]
        return EnvmgrError(reference, f"a channel stalled: {message}", context=_places(request), hint=hint)
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
    if disk := disk_failure(event, request) or _full_now(event, request):
        return disk
    if re.search(r"404|os error 2\)|Not Found|could not find subdir", message):
        reference, hint = _DOWNLOADS["not-found"]
        return EnvmgrError(reference, f"nothing at {url or 'the named place'}", context=lines, hint=hint)
    if _TRANSFER.search(message):
        reference = "no-network" if re.search(r"dns error|\(Connect\)|unreachable", message) else "download-failed"
        return EnvmgrError(reference, f"cannot fetch {url or lines[0]}", context=lines, hint=_MIRROR)
    if event["kind"] in ("InstallerError", "GatewayError", "ChildProcessError", "NetworkError"):
        return EnvmgrError("install-failed", lines[0] if lines else "rattler failed", context=lines[1:])
    return EnvmgrError("worker-failed", f"{event['kind']} in the rattler worker", context=lines)


def _full_now(event: Mapping[str, Any], request: Mapping[str, Any]) -> EnvmgrError | None:
    """Return `disk-full` if an install failed and the disk is full; else None.

    Rattler and Python may leave a cut file and continue. A later step then fails with an error that does not mention
    the disk.
    """
    if "staging" not in request or (free := free_bytes(Path(request["staging"]))) >= _NEARLY_FULL:
        return None
    said = ": ".join(line.removeprefix("Caused by: ").strip() for line in str(event["message"]).splitlines() if line)
    return disk_failure({**event, "message": f"No space left on device, {size_text(free)} are free\n{said}"}, request)


def failure_of_added(event: Mapping[str, Any], request: Mapping[str, Any]) -> EnvmgrError:
    """Return the error for a failure of the worker that adds wheels, wheels_worker.py."""
    kind = event["kind"]
    if kind == "Taken":
        return EnvmgrError(
            "wheel-over-conda",
            f"conda's packages have what a wheel brings, too: {event['what']}",
            context=[f"conda: {event['package']}", f"wheel: {event['wheel']}"],
            hint="wheels only add: take it from one side, by the recipe's `specs` or its `pip`, and lock again",
        )
    if kind == "Lacking":
        return EnvmgrError(
            "conda-lacks",
            f"conda's {event['package']} does not bring what its name promises: {event['what']}",
            context=event["lines"],
            hint="the lock took it for granted: leave that package out of `specs`, so that a wheel comes in "
            "its place, and lock again",
        )
    from envmgr.wheels.fetch import wheel_failure  # most installs add no wheels

    return disk_failure(event, request) or _full_now(event, request) or wheel_failure(event, request)


def _places(request: Mapping[str, Any]) -> list[str]:
    return [place for channel in request["channels"] for place in channel["places"]]
