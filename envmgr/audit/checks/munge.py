"""munge works on every node, with this host's key. The check runs only where Slurm is in use.

Each node makes a credential (`munge -n`), and this host decodes it. A node with another key, or without munged, gets no
jobs from Slurm, or cannot tell whose jobs they are. Credentials live for an hour, so that they do not expire during a
long audit: clocks have a check of their own. Credentials are decoded side by side. Those that this host has not decoded
after twenty seconds are a note on this host, and say nothing about their nodes. Where munge is not installed, nothing
is asked.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from envmgr.audit.controller import Controller
from envmgr.audit.model import Check, Evidence, Rows, scripts
from envmgr.errors import CommandError
from envmgr.nodes.sets import fold
from envmgr.system.run import Runner, clean_env

_SECONDS, _IN_ALL = 5.0, 20.0  # for one credential, and for all
_AT_ONCE = 8
# Made with our key: a fault of clocks or time is not munge's. Source: munge.h, munge_err_t.
_OURS = ("Success", "Expired", "Rewound", "Replayed")
_CREDENTIAL = re.compile(r"MUNGE:[A-Za-z0-9+/=]+:")
_SILENT = "without a word"


@dataclass(frozen=True, slots=True)
class Decoded:
    """The answers of `unmunge` on this host: node -> the fault of its credential, and the nodes not decoded."""

    wrong: Mapping[str, str]
    undecoded: tuple[str, ...] = ()


def ask_controller(controller: Controller, evidence: Evidence) -> Decoded | None:
    """Decode each node's credential; return None without Slurm.

    A munged that does not answer costs twenty seconds in all, for any number of nodes.
    """
    if not evidence.slurm.states and not evidence.slurm.broken:
        return None
    # Without a munged of its own, this host can decode no credential.
    if "munge.failed" in evidence.controller:
        return Decoded({})
    end = time.monotonic() + min(_IN_ALL, controller.left)
    own = evidence.mounts.own
    credentials = {node: made for node in evidence.mounts.nodes if (made := own.get(node, {}).get("munge.credential"))}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        reasons = pool.map(lambda made: unmunge(made, controller.runner, end - time.monotonic()), credentials.values())
        decoded = dict(zip(credentials, reasons, strict=True))
    return Decoded(
        {node: reason for node, reason in decoded.items() if reason},
        tuple(node for node, reason in decoded.items() if reason is None),
    )


def judge(evidence: Evidence) -> Rows:
    decoded = evidence.answer(Decoded)
    if decoded is None:
        return
    fleet = evidence.mounts  # over ssh if ssh was used: a node with a bad munge gets no job
    for said, nodes in fleet.by_value("munge.failed").items():
        yield evidence.say("fails", nodes, said=said or _SILENT)
    for said, nodes in fleet.by_value("munge.user_failed").items():
        yield evidence.say("fails_for_users", nodes, said=said or _SILENT)
    if here := evidence.controller.get("munge.failed"):
        yield evidence.say("fails_here", said=here)
        return
    if decoded.undecoded:
        yield evidence.say("not_decoded", senders=fold(decoded.undecoded), seconds=_IN_ALL)
    wrong: dict[str, list[str]] = {}
    for node, reason in decoded.wrong.items():
        wrong.setdefault(reason, []).append(node)
    for reason, bad in wrong.items():
        yield evidence.say("other_key", bad, reason=reason)


def unmunge(credential: str, runner: Runner, seconds: float = _SECONDS) -> str | None:
    """Return the fault of a credential: empty if this host's key made it, None if there was no answer in `seconds`.

    A host without munge finds no fault.
    """
    program = shutil.which("unmunge", path=clean_env()["PATH"])
    if program is None:
        return ""
    # A node may report anything, and only this form goes into a program.
    if not _CREDENTIAL.fullmatch(credential):
        return "not a credential"
    if seconds <= 0:
        return None
    try:
        done = runner.run(
            [program, "-m", "-", "-k", "STATUS"], stdin=credential, timeout=min(seconds, _SECONDS), check=False
        )
    except CommandError as error:
        return error.message if error.returncode is not None else None
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


CHECK = Check(judge=judge, probe=scripts(__file__, "node"), ask_controller=ask_controller, wants=frozenset({"slurm"}))
