"""Decodes a node's munge credential on this host."""

from __future__ import annotations

import re
import shutil
import time

from envmgr.errors import CommandError
from envmgr.system.run import Runner, clean_env

_SECONDS = 5.0  # for one
# They were made with our key: what clocks and time have to do with it is not munge's fault. Source: munge.h, munge_err_t.
_OURS = ("Success", "Expired", "Rewound", "Replayed")
_CREDENTIAL = re.compile(r"MUNGE:[A-Za-z0-9+/=]+:")


class Decoder:
    """Decodes for a limited time: a munged that does not answer costs `seconds` in all, however many nodes there are."""

    def __init__(self, runner: Runner, seconds: float) -> None:
        self._runner = runner
        self._left = seconds

    def __call__(self, credential: str) -> str:
        """As `unmunge`."""
        if self._left <= 0:
            return "munge here does not answer in time"
        began = time.monotonic()
        said = unmunge(credential, self._runner, min(_SECONDS, self._left))
        self._left -= time.monotonic() - began
        return said


def unmunge(credential: str, runner: Runner, seconds: float = _SECONDS) -> str:
    """What is wrong with a credential, empty when it is made with this host's key. A host without munge finds nothing wrong."""
    program = shutil.which("unmunge", path=clean_env()["PATH"])
    if program is None:
        return ""
    if not _CREDENTIAL.fullmatch(credential):
        return "not a credential"
    try:
        done = runner.run([program, "-m", "-", "-k", "STATUS"], stdin=credential, timeout=seconds, check=False)
    except CommandError as error:
        return error.message
    said = re.search(r"^STATUS:\s*(.+?)(?: \(\d+\))?$", done.stdout, re.MULTILINE)
    if said is not None:
        return "" if said[1].startswith(_OURS) else _lower(said[1])
    lines = (done.stderr or done.stdout).strip().splitlines()
    return (
        _lower(re.sub(r"^unmunge: (Error: )?", "", lines[0]))
        if lines
        else f"unmunge ended with status {done.returncode}"
    )


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
