"""The errors of workers that download, unpack or install wheels, in the house form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envmgr.downloads.client import disk_failure, download_failure
from envmgr.errors import EnvmgrError
from envmgr.system.child import Failure

_MIRROR = (
    "give the index a mirror in site.yaml (backends.wheels.indexes.<name>.mirrors takes URLs and folders), or bring "
    "the wheels from a machine with a network: `envmgr fetch ENTRY` there, `envmgr fetch ENTRY --file FOLDER` here"
)
_AGAIN = (
    "what was fetched is kept: run the same command again, or use another mirror (backends.wheels.indexes in site.yaml)"
)
# Kind of the last place's fault -> reference and hint.
_DOWNLOADS = {
    "unreachable": ("no-network", _MIRROR),
    "not-found": ("not-found", f"the index no longer has it: {_MIRROR}; or lock again"),
    "stalled": ("download-stalled", f"try again later, or {_MIRROR}"),
    "sha256": (
        "wrong-sha256",
        (
            "the file there is damaged or was replaced: compare it with the index's; an index never changes a file "
            "of a version"
        ),
    ),
    "refused": ("download-refused", f"the server wants a login, or forbids it: {_MIRROR}"),
}
# Kind of a worker's error -> reference, context and hint; the error's own message stays.
_KINDS: Mapping[str, tuple[str, Sequence[str], str]] = {
    "BadWheel": ("wheel-invalid", (), "report it to the package's authors; lock another version"),
    "NoPython": ("base-without-python", (), "is the entry that `python:` names whole? `envmgr verify` tells"),
    "Ended": (
        "install-failed",
        ("by the kernel where memory is short (`dmesg` says so), or by somebody",),
        "run the same command again, with a smaller --jobs where memory is short",
    ),
}


def other_ways(entry: str) -> str:
    """Return the hint how wheels come to a host that does not reach their index."""
    return _MIRROR.replace("ENTRY", entry)


def wheel_failure_for(entry: str) -> Failure:
    """Return `wheel_failure` with hints that name this entry."""

    def explain(event: Mapping[str, Any], request: Mapping[str, Any]) -> EnvmgrError:
        error = wheel_failure(event, request)
        error.hint = error.hint.replace("ENTRY", entry)
        return error

    return explain


def wheel_failure(event: Mapping[str, Any], request: Mapping[str, Any]) -> EnvmgrError:
    """Return the error for the event of a worker that downloads or installs."""
    kind, message = str(event["kind"]), str(event["message"])
    if kind == "DownloadError":
        return download_failure(event, _DOWNLOADS, again=_AGAIN)
    if disk := disk_failure(event, request):
        return disk
    if kind in _KINDS:
        reference, context, hint = _KINDS[kind]
        return EnvmgrError(reference, message, context=context, hint=hint)
    if kind == "Overlap":
        return EnvmgrError(
            "wheels-overlap",
            f"two wheels have one path with different content: {event['path']}",
            context=[str(event["first"]), str(event["second"])],
            hint="which one wins would be chance: leave one of the two out (packages such as opencv-python and "
            "opencv-python-headless are one package under two names), by the recipe's requirements or constraints",
        )
    lines = [line.rstrip() for line in message.splitlines() if line.strip()]
    return EnvmgrError(
        "install-failed",
        lines[0] if lines else f"the installation of wheels failed, by a fault of envmgr or its libraries: {kind}",
        context=lines[1:],
        hint="nothing was installed; report it with the log if it fails again",
    )
