"""The Slurm transport: one step per node, and what Slurm says about nodes."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from envmgr.catalog.site import Site
from envmgr.errors import CommandError, EnvmgrError, InputError
from envmgr.nodes import tool, tool_env
from envmgr.nodes.envelope import Status
from envmgr.nodes.sets import read_folded
from envmgr.system.processes import give_up
from envmgr.system.run import Runner
from envmgr.system.users import session_as

if TYPE_CHECKING:
    from envmgr.nodes.clients import Client
    from envmgr.nodes.envelope import ScriptAnswer

_ASK = 10.0  # seconds that sinfo may take
_CANCEL = 2.0  # that scancel is waited for, at the end of a run that may be out of time
# Nodes that no step can be started on. Source: sinfo(1), NODE STATE CODES.
_GONE = re.compile(r"(down|drain|fail|error|unknown|reboot|future|perfctrs).*", re.IGNORECASE)
_ASLEEP = re.compile(r"power.*|.*[~%!#]", re.IGNORECASE)
_IN_USE = re.compile(r"(alloc|mix|comp|planned|reserved|maint|resv).*", re.IGNORECASE)
ENDED = (
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "TIMEOUT",
    "NODE_FAIL",
    "BOOT_FAIL",
    "PREEMPTED",
    "OUT_OF_MEMORY",
    "DEADLINE",
    "REVOKED",
)
"""Beginnings of the states of an ended job. Source: squeue(1), JOB STATE CODES."""
# Reasons of a job that waits which are about others' jobs, and about how much of Slurm a user may have.
# Source: squeue(1), JOB REASON CODES. `UnavailableNodes` are nodes that are down or that other users have exclusively.
_QUEUE = re.compile(r"(Resources|Priority|Reservation|QOS|Assoc|ReqNodeNotAvail).*")

# Reasons that no wait ends: the job asks for more than it may have.
_LIMIT = re.compile(
    r"Partition\w+|(QOS|Assoc)Max(Wall|Node|Cpu|Mem|GRES|TRES)\w*PerJob\w*|\w*WallDuration\w*|BadConstraints"
    r"|InvalidAccount|InvalidQOS|AccountNotAllowed|QOSNotAllowed|Job's .*"
)


def slurm_here() -> bool:
    """Return whether this controller has Slurm's commands."""
    return all(shutil.which(name) is not None for name in ("srun", "sbatch", "sinfo"))


def own_conf() -> str:
    """Return the slurm.conf that envmgr's own commands of Slurm read."""
    conf = os.environ.get("SLURM_CONF", "")
    return conf if conf and Path(conf).exists() else "/etc/slurm/slurm.conf"


def node_states(runner: Runner, *, timeout: float = _ASK) -> dict[str, tuple[str, str]]:
    """Return node -> (state, reason; "" for none), by one `sinfo` within `timeout` seconds.

    Raises EnvmgrError when sinfo is missing or fails.
    """
    # The reason comes last: an administrator wrote it, and it may contain the separator.
    argv = [tool("sinfo"), "-h", "-N", "-o", "%N|%T|%E"]
    lines = runner.run(argv, env=tool_env(), timeout=timeout).stdout.splitlines()
    found = [line.split("|", 2) for line in lines if line.count("|") >= 2]
    return {node.strip(): (state.strip(), "" if why.strip() == "none" else why.strip()) for node, state, why in found}


def node_rows(runner: Runner, *, timeout: float = _ASK) -> dict[str, dict[str, str]]:
    """Return node -> key -> value of what slurm.conf and administrators say of it, by one `scontrol` within `timeout`
    seconds; nothing where that is refused. Nodes of no partition, which sinfo does not list, are there.

    Loads and times are left out, and all of a node's state that comes and goes with jobs: `node_states` has it.
    """
    try:
        said = runner.run([tool("scontrol"), "show", "node", "-o"], env=tool_env(), timeout=timeout).stdout
    except EnvmgrError:
        return {}
    # The first of a key counts: an administrator's Reason and Comment come last, and may have others in them.
    rows = (dict(reversed(_FIELD.findall(line))) for line in said.splitlines())
    return {row["NodeName"]: _kept(row) for row in rows if "NodeName" in row}


_FIELD = re.compile(r"(?:^|\s)(\w+)=(.*?)(?=\s+\w+=|\s*$)")
_AS_THEY_ARE = ("Partitions", "ActiveFeatures", "Gres", "RealMemory", "Weight", "Version")
# What an administrator, a time or slurm.conf gives a node. Source: slurm.h, NODE_STATE_*.
_LASTING = re.compile(r"RESERVED|MAINT\w*|CLOUD|DYNAMIC\w*")


def _kept(row: Mapping[str, str]) -> dict[str, str]:
    """Return the part of a node's row that like nodes have alike."""
    found = {name: row.get(name, "") for name in _AS_THEY_ARE}
    found["Features"] = row.get("AvailableFeatures", "")
    if found["ActiveFeatures"] == found["Features"]:
        del found["ActiveFeatures"]
    found["State"] = "+".join(sorted(_LASTING.findall(row.get("State", ""))))
    sockets, cores, threads = (row.get(name, "?") for name in ("Sockets", "CoresPerSocket", "ThreadsPerCore"))
    found["CPUs"] = f"{row.get('CPUTot', '?')} ({sockets} x {cores} x {threads})"
    return {name: value for name, value in found.items() if value not in ("", "(null)", "N/A")}


def submitting_nodes(runner: Runner) -> tuple[str, ...]:
    """Return the hosts to which some partition restricts the sending of jobs (AllocNodes); none where it is open to all,
    or Slurm does not say. Source: sinfo(1), `%S`.
    """
    if not slurm_here():
        return ()
    with suppress(CommandError, InputError):  # whatever is called sinfo
        said = runner.run([tool("sinfo"), "-h", "-o", "%S"], env=tool_env(), timeout=_ASK).stdout.splitlines()
        return tuple(
            dict.fromkeys(host for line in said if line.strip().lower() != "all" for host in read_folded(line.strip()))
        )
    return ()


def states_or_reason(runner: Runner, timeout: float) -> tuple[dict[str, tuple[str, str]], str]:
    """Return `node_states`, within 10 s, or why Slurm does not say. Raises EnvmgrError `command-missing`."""
    limit = min(timeout, _ASK)
    if (conf := os.environ.get("SLURM_CONF", "")) and not Path(conf).exists():  # sinfo would look for it in the network
        return {}, f"SLURM_CONF is {conf}, which is not there"
    try:
        return node_states(runner, timeout=limit), ""
    except CommandError as error:
        if error.returncode is None:
            return {}, f"no answer in {limit:.3g} s"
        if UNCONFIGURED in error.stderr:  # its last words; the first are about DNS
            return {}, UNCONFIGURED
        return {}, slurm_reason(error.stderr.encode()) or error.message


def mpi_plugins(runner: Runner) -> frozenset[str] | None:
    """Return the values of `srun --mpi=` on this host; None where srun does not say."""
    try:
        done = runner.run([tool("srun"), "--mpi=list"], env=tool_env(), timeout=_ASK, check=False)
    except CommandError:
        return None
    said = f"{done.stdout}\n{done.stderr}"  # it goes to stderr, up to Slurm 23
    return frozenset(said.split()) if "MPI plugin types" in said else None


UNCONFIGURED = "Could not establish a configuration source"
"""The error of Slurm's commands on a host without slurm.conf."""


def why_no_step(states: Mapping[str, tuple[str, str]], node: str) -> str:
    """Return why no step can start on the node, by Slurm's own name of it; empty when one can."""
    if node not in states:
        return "no partition of Slurm has this node"
    return f"Slurm: {in_words(states[node])}" if _GONE.fullmatch(states[node][0]) else asleep(states[node][0])


def asleep(state: str) -> str:
    """Return why a node that saves power is not asked, else nothing. A job would wake it, and wait."""
    return "" if _GONE.fullmatch(state) or not _ASLEEP.fullmatch(state) else f"asleep: Slurm saves its power ({state})"


def is_busy(state: str, why: str) -> bool:
    """Return whether a job waits for others, by its node's state and its reason: then nothing is wrong."""
    return not _LIMIT.fullmatch(why) and bool(_IN_USE.fullmatch(state) or _QUEUE.fullmatch(why))


def slurm_names(states: Iterable[str], nodes: Iterable[str]) -> dict[str, str]:
    """Return node -> Slurm's own name of it, which often has no domain; without nodes that Slurm does not know.

    Two names match if they are equal, or if only one has a domain and no other name on either side matches.
    """
    known = frozenset(states)
    asked = list(dict.fromkeys(nodes))
    found = {node: node for node in asked if node in known}
    of_slurm: dict[str, list[str]] = {}
    for name in known.difference(found):
        of_slurm.setdefault(_first_label(name), []).append(name)
    of_ours: dict[str, list[str]] = {}
    for node in asked:
        if node not in found:
            of_ours.setdefault(_first_label(node), []).append(node)
    for label, ours in of_ours.items():
        names = of_slurm.get(label, [])
        if len(ours) == len(names) == 1 and ("." not in ours[0] or "." not in names[0]):
            found[ours[0]] = names[0]
    return found


def _first_label(name: str) -> str:
    return name.partition(".")[0].lower()


def in_words(state: tuple[str, str]) -> str:
    """Return `down, not responding: dead disk` for a state as `sinfo` prints it, and a reason. Other flags stay."""
    name, why = state
    said = f"{name[:-1]}, not responding" if name.endswith("*") else name
    return f"{said}: {why}" if why else said


def longest_job(runner: Runner, options: Iterable[str], *, timeout: float = _ASK) -> float | None:
    """Return the seconds that a job may take in the partition that `options` name, else in the default one.

    None where that has no limit, or Slurm does not say. Of several partitions the longest: Slurm takes one that fits.
    """
    named = [option.partition("=")[2].split(",") for option in options if option.startswith("--partition=")]
    try:
        argv = [tool("sinfo"), "-h", "-o", "%P|%l"]
        said = runner.run(argv, env=tool_env(), timeout=min(timeout, _ASK)).stdout.splitlines()
    except EnvmgrError:
        return None
    limits = {name.strip(): _seconds(limit.strip()) for name, _, limit in (line.partition("|") for line in said)}
    wanted = named[-1] if named else [name for name in limits if name.endswith("*")]
    found = [limits.get(name, limits.get(f"{name}*")) for name in wanted]
    # One partition without a limit is enough: Slurm may choose it.
    return max((each for each in found if each is not None), default=None) if None not in found else None


def _seconds(limit: str) -> float | None:
    """Return the seconds of a time as Slurm prints it: `30:00`, `2:00:00`, `1-00:00:00`; None for `infinite` and
    `n/a`.
    """
    match = re.fullmatch(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)", limit)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60.0 + seconds


def job_name(nonce: str) -> str:
    return f"envmgr-{nonce}"


def time_limit(seconds: float, most: float | None = None) -> str:
    """Return Slurm's `--time` for something that ends itself after `seconds`: whole minutes, with one to spare.

    It is `most` seconds at most: a job that asks for more than its partition allows waits for ever. With less time, the
    job ends when its time is over, and Slurm says so.
    """
    minutes = math.ceil(seconds / 60) + 1
    return str(minutes if most is None else max(1, min(minutes, math.floor(most / 60))))


def one_task(*options: str) -> tuple[str, ...]:
    """Return the words of `srun` for one task that gets no variable of this shell, and starts no MPI."""
    # --chdir: the folder that envmgr was called in may be missing on the node.
    return (tool("srun"), "--quiet", "-N1", "-n1", "--export=NONE", "--chdir=/", "--mpi=none", *options)


def cancel_jobs(nonce: str) -> None:
    """Cancel every job and step of this run, also after an interruption.

    A scancel that takes its time goes on by itself: a busy Slurm must not keep the jobs.
    """
    null = subprocess.DEVNULL
    with suppress(EnvmgrError, OSError):
        argv = [tool("scancel"), "--quiet", f"--name={job_name(nonce)}"]
        process = subprocess.Popen(argv, env=tool_env(), stdin=null, stdout=null, stderr=null, start_new_session=True)
        try:
            process.wait(_CANCEL)
        except subprocess.TimeoutExpired:
            give_up(process)


class SlurmWay:
    """One `srun` per node: a dead node would fail one `srun` for all nodes. `job` is a job of this process, for
    steps.
    """

    def __init__(
        self,
        site: Site,
        runner: Runner,
        nonce: str,
        *,
        user: str | None,
        timeout: float,
        deadline: float,
        job: str | None = None,
    ) -> None:
        self.env = tool_env()
        self._site = site
        self._runner = runner
        self._nonce = nonce
        # Waiting is part of a step's time: half of that is for the script.
        self._patience = max(1, math.ceil(min(site.transport.queue_timeout, timeout / 2, deadline / 2)))
        self._timeout, self._deadline = timeout, deadline
        self._job = job
        self._states: dict[str, tuple[str, str]] = {}
        self._names: dict[str, str] = {}
        self._broken = ""
        self._most: float | None = None
        self._waited: dict[str, str] | None = None
        self._prefix = session_as(user, self.env, find=tool)

    def prepare(self, nodes: Sequence[str]) -> None:
        tool("srun")
        self._states, self._broken = states_or_reason(self._runner, self._deadline)
        self._names = slurm_names(self._states, nodes)
        if self._job is None and not self._broken:
            self._most = longest_job(self._runner, self._site.transport.slurm_options, timeout=self._deadline)

    def argv(self, node: str) -> tuple[str, ...] | str:
        if self._broken:
            return f"Slurm: {self._broken}"
        name = self._names.get(node, node)
        if gone := why_no_step(self._states, name):
            return gone
        where: tuple[str, ...] = (f"--immediate={self._patience}", *self._site.transport.slurm_options)
        if self._job is not None:
            # Without --overlap, a step waits until other steps of the job give their CPUs back.
            where = ("--overlap", f"--jobid={self._job}")
        limits = (f"--job-name={job_name(self._nonce)}", f"--time={time_limit(self._timeout, self._most)}")
        return (*self._prefix, *one_task("-w", name, *limits, *where), "/bin/sh", "-s")

    def explain(self, client: Client, answer: ScriptAnswer, *, begun: bool) -> tuple[Status, str]:
        if begun:
            late = "TIME LIMIT" in client.errors.decode("utf-8", "backslashreplace").upper()
            return "silent", f"Slurm: the time limit of the job was over: {answer.reason}" if late else answer.reason
        if answer.reason != "no answer":
            return "silent", answer.reason
        said = slurm_reason(client.errors)
        if "busy" in said or "Immediate execution impossible" in said:
            name = self._names[client.call.node]
            now = in_words(self._states[name])
            why = self._reasons().get(name, "")
            waited = f"no step could start within {self._patience} s"
            if _LIMIT.fullmatch(why) and why != "BadConstraints":  # said of `--immediate` at a busy node, too
                return "unreachable", f"Slurm: {waited} ({why}); the node was {now}"
            return "unreachable", f"busy: {waited}; the node was {now}"
        return "unreachable", f"Slurm: {said}" if said else f"srun ended with status {client.status} and said nothing"

    def _reasons(self) -> dict[str, str]:
        """Return why Slurm let jobs of this run wait, by the node that each asked for; Slurm is asked once."""
        if self._waited is None:
            argv = [tool("squeue"), "-h", "--states=all", f"--name={job_name(self._nonce)}", "-o", "%n|%r"]
            try:
                said = self._runner.run(argv, env=tool_env(), timeout=_CANCEL, check=False).stdout.splitlines()
            except EnvmgrError:
                said = []
            rows = (line.strip().partition("|") for line in said)
            self._waited = {node: why for node, _, why in rows if why not in ("", "None", "NonZeroExitCode")}
        return self._waited

    def again(self, client: Client) -> tuple[str, ...] | None:  # noqa: ARG002
        return None

    def finish(self) -> None:
        cancel_jobs(self._nonce)


def slurm_reason(errors: bytes) -> str:
    """Return Slurm's first error in plain words; the lines after it are its consequences."""
    lines = [line.strip() for line in errors.decode("utf-8", "backslashreplace").splitlines() if line.strip()]
    said = [re.sub(r"^(srun|sbatch|salloc|slurm_load_\w+|sinfo)( error)?: (error: )?", "", line) for line in lines]
    wrong = [text for text, line in zip(said, lines, strict=True) if "error:" in line]
    return (wrong or said or [""])[0]
