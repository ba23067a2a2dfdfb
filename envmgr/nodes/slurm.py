"""The Slurm transport: one step per node, and what Slurm says about nodes. The only use of srun, sbatch, squeue, scancel."""

from __future__ import annotations

import math
import os
import pwd
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from envmgr.errors import CommandError, EnvmgrError, InputError
from envmgr.nodes.reply import Status
from envmgr.nodes.tools import tool, tool_env
from envmgr.run import Runner
from envmgr.site import Site

if TYPE_CHECKING:
    from envmgr.nodes.clients import Client
    from envmgr.nodes.envelope import Answer

_ASK = 20.0  # seconds that sinfo may take
_CANCEL = 2.0  # and scancel, at the end of a run that may be out of time
# Nodes that no step can be started on. Source: sinfo(1), NODE STATE CODES.
_GONE = re.compile(r"(down|drain|fail|error|unknown|power|reboot|future|perfctrs).*", re.IGNORECASE)


def slurm_here(environ: Mapping[str, str] | None = None) -> bool:
    """Whether this controller has Slurm's commands."""
    import shutil

    path = (os.environ if environ is None else environ).get("PATH")
    return all(shutil.which(name, path=path) is not None for name in ("srun", "sbatch", "sinfo"))


def node_states(runner: Runner, *, timeout: float = _ASK) -> dict[str, tuple[str, str]]:
    """node -> (state, reason; "" for none), by one `sinfo` within `timeout` seconds. A node of several partitions comes once.

    Raises EnvmgrError when sinfo is missing or fails.
    """
    argv = [tool("sinfo"), "-h", "-N", "-o", "%N|%T|%E"]
    lines = runner.run(argv, env=tool_env(), timeout=timeout).stdout.splitlines()
    found = [line.split("|", 2) for line in lines if line.count("|") >= 2]
    return {node.strip(): (state.strip(), "" if why.strip() == "none" else why.strip()) for node, state, why in found}


def states_or_reason(runner: Runner, timeout: float) -> tuple[dict[str, tuple[str, str]], str]:
    """As `node_states`; where Slurm does not say, why no node can be asked. EnvmgrError `command-missing`."""
    try:
        return node_states(runner, timeout=min(timeout, _ASK)), ""
    except CommandError as error:
        said = reason(error.stderr.encode())
        return {}, f"Slurm: {said or error.message}"


def why_not(states: Mapping[str, tuple[str, str]], node: str) -> str:
    """Why no step can start on the node; empty when one can."""
    if node not in states:
        return "Slurm does not know this node"
    return f"Slurm: {in_words(states[node])}" if _GONE.fullmatch(states[node][0]) else ""


def in_words(state: tuple[str, str]) -> str:
    """`down, not responding: dead disk`: what a final `*` means is in sinfo(1)."""
    name, why = state
    said = f"{name[:-1]}, not responding" if name.endswith("*") else name
    return f"{said}: {why}" if why else said


def job_name(nonce: str) -> str:
    return f"envmgr-{nonce}"


def time_limit(seconds: float) -> str:
    """Slurm's `--time` for something that ends itself after `seconds`: whole minutes, with one to spare."""
    return str(math.ceil(seconds / 60) + 1)


def cancel_jobs(nonce: str) -> None:
    """No job and no step of this run stays, also when we were interrupted."""
    with suppress(EnvmgrError):
        Runner().run(  # one of its own: the caller's may be cancelled
            [tool("scancel"), "--quiet", f"--name={job_name(nonce)}"], env=tool_env(), timeout=_CANCEL, check=False
        )


class SlurmWay:
    """One `srun` per node: with one for all of them, a dead node fails it for everybody."""

    def __init__(
        self, site: Site, runner: Runner, nonce: str, *, user: str | None, timeout: float, deadline: float
    ) -> None:
        self.env = tool_env()
        self._site = site
        self._runner = runner
        self._nonce = nonce
        self._patience = max(1, math.ceil(site.transport.queue_timeout))
        self._timeout, self._deadline = timeout, deadline
        self._states: dict[str, tuple[str, str]] = {}
        self._broken = ""
        self._prefix = as_user(user, self.env)

    def prepare(self, nodes: Sequence[str]) -> None:  # noqa: ARG002 - one question for all
        tool("srun")
        self._states, self._broken = states_or_reason(self._runner, self._deadline)

    def argv(self, node: str) -> tuple[str, ...] | str:
        if gone := self._broken or why_not(self._states, node):
            return gone
        return (
            *self._prefix, tool("srun"), "--quiet", "-N1", "-n1", "-w", node,
            f"--job-name={job_name(self._nonce)}", f"--time={time_limit(self._timeout)}",
            f"--immediate={self._patience}", "--export=NONE", "--chdir=/", "--mpi=none",
            *self._site.transport.slurm_options, "/bin/sh", "-s",
        )  # fmt: skip

    def explain(self, client: Client, answer: Answer, *, begun: bool) -> tuple[Status, str]:
        if begun:
            return "silent", answer.reason
        if answer.reason != "no answer":
            return "silent", answer.reason
        said = reason(client.errors)
        if "busy" in said or "Immediate execution impossible" in said:
            now = in_words(self._states[client.call.node])
            return "unreachable", f"Slurm: no step could start within {self._patience} s; the node was {now}"
        return "unreachable", f"Slurm: {said}" if said else f"srun ended with status {client.status} and said nothing"

    def again(self, client: Client) -> tuple[str, ...] | None:  # noqa: ARG002
        return None

    def finish(self) -> None:
        cancel_jobs(self._nonce)


def reason(errors: bytes) -> str:
    """Slurm's first error in plain words; what follows it is its consequence."""
    lines = [line.strip() for line in errors.decode("utf-8", "backslashreplace").splitlines() if line.strip()]
    said = [re.sub(r"^(srun|sbatch|slurm_load_\w+|sinfo)( error)?: (error: )?", "", line) for line in lines]
    wrong = [text for text, line in zip(said, lines, strict=True) if "error:" in line]
    return (wrong or said or [""])[0]


def as_user(user: str | None, env: dict[str, str]) -> tuple[str, ...]:
    """What to put before a command so that `user` runs it; changes `env` to theirs. Nothing when we are that user."""
    if user is None or os.geteuid() != 0 or user == "root":
        return ()
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise InputError("unknown-user", f"the user `{user}` does not exist here") from None
    env |= {"HOME": entry.pw_dir, "USER": user, "LOGNAME": user}
    return (tool("runuser"), "-u", user, "--")
