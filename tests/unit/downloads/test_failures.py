"""What is said when a worker fails, or when no place gives a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envmgr.backends.conda.client import failure_for, failure_of_added, solver_failure
from envmgr.backends.container.install import _failure as of_container
from envmgr.wheels.fetch import wheel_failure

WAYS = (
    "give it a mirror in site.yaml (backends.{}.<name>.mirrors takes URLs and folders), or bring the files from a machine "
    "with a network and the same catalog: `envmgr fetch x/1` there, `envmgr fetch x/1 --file FOLDER` here"
)


@pytest.mark.parametrize(
    ("kind", "reference", "hint"),
    [
        ("unreachable", "no-network", f"{WAYS}"),
        ("stalled", "download-stalled", f"try again later, or {WAYS}"),
        ("not-found", "not-found", f"no place has it any more: {WAYS}; or lock again"),
        (
            "refused",
            "download-refused",
            "the server wants a login, or forbids it (RATTLER_AUTH_FILE, `.netrc`): " + WAYS,
        ),
    ],
)
def test_download_that_failed_is_worded_alike_for_all(kind: str, reference: str, hint: str) -> None:
    event = {"kind": "DownloadError", "message": "a", "failed": [{"name": "a", "reasons": [("http://x/a", kind, "y")]}]}
    for failure, mirrors in ((failure_for("x/1"), "conda.channels"), (wheel_failure("x/1"), "wheels.indexes")):
        error = failure(event, {"cache": "/c"})
        assert (error.reference, error.message, error.hint) == (
            reference,
            "cannot fetch http://x/a",
            hint.format(mirrors),
        )


TAKEN = {"kind": "Taken", "message": "", "what": "six", "package": "six 1.17.0", "wheel": "six-1.whl"}
LACKING = {"kind": "Lacking", "message": "", "what": "absent", "package": "six 1.17.0", "lines": ["one {needs} it"]}


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (TAKEN, "error[wheel-over-conda]: conda's packages have what a wheel brings, too: six\n  conda: six 1.17.0\n"),
        (
            LACKING,
            "error[conda-lacks]: conda's six 1.17.0 does not bring what its name promises: absent\n  one {needs} it\n",
        ),
        ({"kind": "BadWheel", "message": "a {b}"}, "error[wheel-invalid]: a {b}\n"),
        (
            {"kind": "KeyError", "message": "'x'\nCaused by: y"},
            "error[worker-failed]: 'x'\n  y\n\nhint: report it with the log if it fails again",
        ),
        (
            {"kind": "KeyError", "message": ""},
            "error[worker-failed]: a worker failed, by a fault of envmgr or its libraries: KeyError\n",
        ),
        ({"kind": "X", "message": "io: os error 28"}, "error[disk-full]: no space left under /c\n  io: os error 28\n"),
        ({"kind": "X", "message": "Permission denied: a"}, "error[not-writable]: a file cannot be written\n"),
    ],
)
def test_kinds_have_words_of_their_backend_or_those_of_all(event: dict[str, Any], told: str) -> None:
    assert failure_of_added("x/1")(event, {"cache": "/c"}).render().startswith(told)


def test_program_that_an_image_lacks() -> None:
    told = of_container("x/1")({"kind": "NoCommand", "message": "sh"}, {"cache": "/c"}).render()
    assert told == (
        "error[command-not-in-image]: the image of x/1 has no program sh\n\n"
        "hint: name its path in the recipe, `commands: {name: /path}`; `envmgr` looks where the image's PATH leads"
    )


def test_disk_that_is_full_is_told_whatever_the_worker_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may be cut without an error, and a later step fails."""
    monkeypatch.setattr("envmgr.downloads.failures.free_bytes", lambda _: 4096)
    event = {"kind": "InstallerError", "message": "no such file"}
    told = wheel_failure("x/1")(event, {"cache": "/c", "staging": str(tmp_path)}).render()
    head = f"error[disk-full]: no space left under {tmp_path}\n  No space left on device, 4.1 kB are free\n"
    assert told.startswith(f"{head}  no such file\n")


@pytest.mark.parametrize(
    ("message", "reference"),
    [
        ("error sending request: dns error", "no-network"),
        ("HTTP 404 http://x/a", "not-found"),
        ("odd", "worker-failed"),
    ],
)
def test_words_of_rattler_when_it_resolves(message: str, reference: str) -> None:
    error = solver_failure({"kind": "GatewayError", "message": message}, {"cache": "/c"})
    assert error.reference == reference
