"""Words for the failures of workers, and of downloads: one table for all backends, and rows of their own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from envmgr.errors import EnvmgrError
from envmgr.system.child import Event
from envmgr.system.files import free_bytes
from envmgr.wording import and_more, size_text

_FREE = "free some space (`envmgr gc` removes old generations and unused installs), then run the same command again"
_NEARLY_FULL = 1 << 20  # bytes; more than the part of a file that may be missing without a report
_NAMED = 3  # files that failed as the first did, and are named
_WAYS = (
    "give it a mirror in site.yaml ({mirrors} takes URLs and folders), or bring the files from a machine with a network "
    "and the same catalog: `envmgr fetch {label}` there, `envmgr fetch {label} --file FOLDER` here"
)
_AGAIN = "what was fetched is kept: run the same command again, or use another mirror ({mirrors} in site.yaml)"
# Kind of the last place's fault -> reference and hint.
_DOWNLOADS = {
    "unreachable": ("no-network", _WAYS),
    "not-found": ("not-found", f"no place has it any more: {_WAYS}; or lock again"),
    "stalled": ("download-stalled", f"try again later, or {_WAYS}"),
    "sha256": (
        "wrong-sha256",
        "the file there is damaged or was replaced: compare it with its publisher's, or lock again if that one changed",
    ),
    "refused": ("download-refused", f"the server wants a login, or forbids it (RATTLER_AUTH_FILE, `.netrc`): {_WAYS}"),
}


class Row(NamedTuple):
    """The words of an error, in which `{path}` is the field `path` of what happened."""

    reference: str
    message: str
    hint: str
    context: tuple[str, ...] = ()

    def error(self, fields: Mapping[str, Any], lines: Iterable[str] = (), log: str = "") -> EnvmgrError:
        """Return the error; `lines` follow its own context."""
        context = [*(line.format_map(fields) for line in self.context), *lines]
        message, hint = self.message.format_map(fields), self.hint.format_map(fields)
        return EnvmgrError(self.reference, message, context=context, hint=hint, log=log)


def other_ways(mirrors: str, label: str) -> str:
    """Return the hint how files come to a host that reaches none of their places."""
    return _WAYS.format(mirrors=mirrors, label=label)


def worker_failure(
    event: Event, request: Mapping[str, Any], *, label: str, mirrors: str, rows: Mapping[str, Row]
) -> EnvmgrError:
    """Return the error for an `error` event of a worker, or of a download.

    `label` says whose failure it is. `mirrors` is the key of site.yaml that names other places of the files. `rows` are
    words for kinds that only this worker has: lines that the event has in `lines` become context.
    """
    lines = [line.removeprefix("Caused by: ").rstrip() for line in str(event["message"]).splitlines() if line.strip()]
    kind = str(event["kind"])
    if kind == "DownloadError" and kind not in rows:
        return _download_failure(event, {"mirrors": mirrors, "label": label})
    if disk := _disk_failure(event, request, lines):
        return disk
    if row := rows.get(kind):
        return row.error({**event, "label": label}, event.get("lines", ()))
    what = lines[0] if lines else f"a worker failed, by a fault of envmgr or its libraries: {kind}"
    return EnvmgrError("worker-failed", what, context=lines[1:], hint="report it with the log if it fails again")


def _disk_failure(event: Event, request: Mapping[str, Any], lines: Sequence[str]) -> EnvmgrError | None:
    """Return the disk's error; None if an `error` event has another cause."""
    # Requests that only download have no staging folder.
    where = request.get("staging", request["cache"])
    if event["kind"] == "TooLarge":
        return EnvmgrError("disk-full", str(event["message"]), context=where, hint=_FREE)
    # `os error 28` is how Rust, and so rattler, prints ENOSPC; 122 is EDQUOT.
    if re.search(r"No space left|quota exceeded|os error (?:28|122)\b", str(event["message"])):
        return EnvmgrError("disk-full", f"no space left under {where}", context=lines[:2], hint=_FREE)
    if "Permission denied" in str(event["message"]):
        return EnvmgrError(
            "not-writable", "a file cannot be written", context=lines, hint="run as the site's build user"
        )
    # Rattler and Python may leave a cut file and continue. A later step then fails, and does not mention the disk.
    if "staging" in request and (free := free_bytes(Path(where))) < _NEARLY_FULL:
        said = f"No space left on device, {size_text(free)} are free"
        return EnvmgrError("disk-full", f"no space left under {where}", context=[said, ": ".join(lines)], hint=_FREE)
    return None


def _download_failure(event: Event, fields: Mapping[str, str]) -> EnvmgrError:
    """Return the error for a failed download, with every place that was tried and its reason.

    The headline is the fault that is easiest to fix.
    """
    first, *others = sorted(event["failed"], key=lambda lost: str(lost["name"]))
    reasons = [(str(url), str(kind), str(text)) for url, kind, text in first["reasons"]]
    url, kind, _ = max(reasons, key=_weight)
    reference, hint = _DOWNLOADS.get(kind, ("download-failed", _AGAIN))
    name = url.rpartition("/")[2]
    message = f"{name}: what arrived is not what the lock names" if kind == "sha256" else f"cannot fetch {url}"
    context = [f"{place}: {text}" for place, _, text in reasons]
    # One mirror that is down fails every file in the same way: its reasons are printed once.
    alike = [other for other in others if _in_short(other["reasons"]) == _in_short(first["reasons"])]
    for other in others:
        if other not in alike:
            context.append(f"{other['name']} cannot be had either:")
            context += [f"  {url}: {text}" for url, _, text in other["reasons"]]
    if alike:
        names = and_more([str(other["name"]) for other in alike], _NAMED)
        context.append(f"{names} cannot be had either, for the same reason")
    return EnvmgrError(reference, message, context=context, hint=hint.format_map(fields))


def _in_short(reasons: Sequence[Sequence[str]]) -> list[tuple[str, str, str]]:
    """Return what two files that failed alike have in common: of each place the host, the kind of fault and its
    text.
    """
    return [(urlsplit(url).netloc, kind, text) for url, kind, text in reasons]


def _weight(reason: tuple[str, str, str]) -> int:
    """Return how important a reason is: wrong content first, then a mirror's own fault; a folder without the file, or
    no network, is usual.
    """
    url, kind, _ = reason
    if kind == "damaged":  # the cache's own copy, which is gone
        return -1
    if kind == "sha256":
        return 3
    if kind == "unreachable":
        return 1
    return 0 if url.startswith("file://") else 2
