"""Jobs of Slurm: sent, seen and ended by their numbers; and all users' jobs that have not ended."""

from __future__ import annotations

import calendar
import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envmgr.catalog.site import Site
from envmgr.errors import CommandError, EnvmgrError, InputError
from envmgr.nodes import tool, tool_env
from envmgr.nodes.slurm import ENDED, UNCONFIGURED, one_task, slurm_reason, time_limit
from envmgr.system.run import Completed, Runner

_ASK = 20.0  # seconds that squeue, scontrol and scancel may take
_SEND = 120.0  # and sbatch, whose controller may be busy with others
_SUBMIT = ("--parsable", "--nodes=1", "--ntasks=1", "--no-requeue", "--export=NONE", "--chdir=/")  # of every job
_FREE = 5  # seconds in which a node must be free to be asked something
# What Slurm's commands say when Slurm does not answer, whatever was asked. Source: slurm 22.05, slurm_errno.c.
SLURM_DOWN = re.compile(
    r"Unable to contact slurm controller|Socket timed out|Connection refused|Zero Bytes were transmitted|"
    r"in standby mode|Communication connection failure|Protocol authentication error|Unable to communicate|"
    + re.escape(UNCONFIGURED)
)
_ACCOUNTED = {  # fields of sacct, by scontrol's names
    "State": "JobState",
    "Reason": "Reason",
    "ExitCode": "ExitCode",
    "NodeList": "NodeList",
    "Timelimit": "TimeLimit",
}
# Source: sbatch(1), --time.
_TIME = re.compile(r"\d+(:\d{1,2}){0,2}|\d+-\d{1,2}(:\d{1,2}){0,2}|UNLIMITED|INFINITE")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,+@-]*")


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Options of a job; None is as the site's `slurm_options` say, else Slurm's own default."""

    partition: str | None = None
    account: str | None = None
    cpus: int | None = None
    time: str | None = None

    def check(self) -> None:
        """Raise InputError `bad-job-option` for an option that Slurm would not accept."""
        if self.time is not None and not _TIME.fullmatch(self.time):
            raise InputError(
                "bad-job-option",
                f"--time `{self.time}` is not a time as Slurm writes it",
                hint="minutes, or hours:minutes:seconds, or days-hours: 90, 1:30:00, 2-12",
            )
        for option, value in (("--partition", self.partition), ("--account", self.account)):
            if value is not None and not _NAME.fullmatch(value):
                raise InputError("bad-job-option", f"{option} `{value}` is not a name that Slurm could know")

    def words(self) -> list[str]:
        values = {"partition": self.partition, "account": self.account, "cpus-per-task": self.cpus, "time": self.time}
        return [f"--{name}={value}" for name, value in values.items() if value is not None]


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job as Slurm shows it: `RUNNING`, its reason to wait or to have ended ("" for none), its nodes."""

    name: str
    state: str
    why: str
    nodes: str

    @property
    def ended(self) -> bool:
        return self.state.startswith(ENDED)


def send_job(
    name: str, script: str, *, output: Path, after: Sequence[str], options: JobOptions, site: Site, runner: Runner
) -> str:
    """Submit a job and return its number. It starts when the jobs `after` have ended well, and never if one has failed.

    Raises:
        EnvmgrError: `slurm-unavailable`, `job-refused`.
    """
    argv = [
        tool("sbatch"),
        *_SUBMIT,
        f"--job-name={name}",
        f"--output={output}",
        *site.transport.slurm_options,
        *options.words(),
        # Without --kill-on-invalid-dep, a job would stay in the queue for ever after a failed one.
        *([f"--dependency=afterok:{':'.join(after)}", "--kill-on-invalid-dep=yes"] if after else []),
    ]
    done = run_slurm(runner, argv, stdin=script, timeout=_SEND)
    # With --clusters, the name of the cluster follows the number.
    number = done.stdout.strip().partition(";")[0]
    if done.returncode or not number.isdigit():
        raise EnvmgrError(
            "job-refused",
            f"Slurm does not take the job: {slurm_reason((done.stderr or done.stdout).encode())}",
            context=" ".join([*options.words(), *site.transport.slurm_options]),
            hint="see --partition, --account, --cpus and --time, and transport.slurm_options in site.yaml",
        )
    return number


def ask_a_node(argv: Sequence[str], options: JobOptions, site: Site, runner: Runner, *, node: str = "") -> str:
    """Return the output of a command on `node`, else on one that Slurm picks now, of the jobs' partition; empty where
    none answers.

    A node that is free within some seconds: a question is not worth a wait in the queue.
    """
    limits = (f"--immediate={_FREE}", "--job-name=envmgr-ask", f"--time={time_limit(_ASK)}")
    where = (*site.transport.slurm_options, *JobOptions(options.partition, options.account).words())
    where += (f"--nodelist={node}",) if node else ()
    try:
        done = runner.run([*one_task(*limits, *where), *argv], env=tool_env(), timeout=_ASK, check=False)
    except CommandError:
        return ""
    return done.stdout.strip()


def see_jobs(names: Collection[str], site: Site, runner: Runner) -> dict[str, JobSeen]:
    """Return number -> job for this user's jobs of these names. Slurm knows ended jobs for some minutes (MinJobAge).

    Jobs of another user with the same name are ignored: names can be known, and do not show whose a job is.

    Raises:
        EnvmgrError: `slurm-unavailable`.
    """
    if not names:
        return {}
    chosen = ("--states=all", f"--user={os.geteuid()}", f"--name={','.join(names)}")
    done = run_slurm(runner, [tool("squeue"), "-h", *chosen, "-o", "%i|%T|%r|%N|%j", *where_jobs_go(site)])
    if done.returncode:
        raise unavailable(done)
    # The name comes last, because it may contain the separator.
    rows = [line.strip().split("|", 4) for line in done.stdout.splitlines() if line.count("|") >= 4]
    return {
        number: JobSeen(name, state, "" if why == "None" else why, nodes) for number, state, why, nodes, name in rows
    }


def job_facts(number: str, site: Site, runner: Runner) -> Mapping[str, str]:
    """Return what `scontrol` says of a job: `JobState`, `Reason`, `ExitCode`, `NodeList`, `TimeLimit`, …; of one that
    the controller has forgotten, what `sacct` says. Empty when Slurm cannot tell.
    """
    try:
        done = run_slurm(runner, [tool("scontrol"), "-o", *where_jobs_go(site), "show", "job", number])
        if not done.returncode:
            return dict(re.findall(r"(?:^| )([A-Z]\w*)=(\S*)", done.stdout))
        where = [*where_jobs_go(site), f"--jobs={number}", f"--format={','.join(_ACCOUNTED)}"]
        done = run_slurm(runner, [tool("sacct"), "--noheader", "--allocations", "--parsable2", *where])
    except EnvmgrError:
        return {}
    rows = [] if done.returncode else [line.split("|") for line in done.stdout.splitlines()]
    return dict(zip(_ACCOUNTED.values(), rows[-1], strict=False)) if rows else {}


def forgets_after(site: Site, runner: Runner) -> str:
    """Return how long the controller knows ended jobs, as `300 sec`; empty when Slurm cannot tell."""
    try:
        done = run_slurm(runner, [tool("scontrol"), *where_jobs_go(site), "show", "config"])
    except EnvmgrError:
        return ""
    found = re.search(r"^MinJobAge\s*=\s*(.*\S)", done.stdout, re.MULTILINE)
    return found[1] if found else ""


def end_jobs(numbers: Sequence[str], site: Site) -> bool:
    """Cancel jobs; whether Slurm has heard of it. Those that are gone already do not matter."""
    if not numbers:
        return True
    try:  # a runner of its own: the caller's may be cancelled
        return run_slurm(Runner(), [tool("scancel"), "--quiet", *where_jobs_go(site), *numbers]).returncode == 0
    except EnvmgrError:
        return False


def where_jobs_go(site: Site) -> list[str]:
    """Return the options that send the site's jobs to another cluster than this host's."""
    return [option for option in site.transport.slurm_options if option.startswith("--clusters=")]


def run_slurm(
    runner: Runner, argv: Sequence[str], *, stdin: str = "", timeout: float = _ASK, env: Mapping[str, str] | None = None
) -> Completed:
    """Run a command of Slurm. Raises EnvmgrError `slurm-unavailable` if no controller answers it."""
    try:
        done = runner.run(argv, env=tool_env() if env is None else env, stdin=stdin, timeout=timeout, check=False)
    except CommandError as late:
        raise EnvmgrError(
            "slurm-unavailable",
            f"Slurm does not answer: no word from {argv[0].rpartition('/')[2]} in {timeout:g} s",
            context=late.context,
            hint=_LOOK,
        ) from None
    if done.returncode and SLURM_DOWN.search(done.stderr):
        raise unavailable(done)
    return done


_LOOK = "is slurmctld up (`scontrol ping`), and is this host one of the cluster's?"


def unavailable(done: Completed) -> EnvmgrError:
    found = SLURM_DOWN.search(done.stderr)
    line = next((line for line in done.stderr.splitlines() if found and found[0] in line), "")
    said = slurm_reason((line or done.stderr or f"exit status {done.returncode}").encode())
    return EnvmgrError("slurm-unavailable", f"Slurm does not answer: {said}", hint=_LOOK)


_QUEUE_TIME = "%Y-%m-%dT%H:%M:%S"
_ENV = {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}  # times without a zone; see squeue(1)


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A queued job. `submitted` is seconds since the epoch, None if Slurm does not report it; `state` as Slurm writes
    it.
    """

    number: str
    user: str
    state: str
    submitted: float | None

    def __str__(self) -> str:
        return f"job {self.number} of {self.user} ({self.state.lower()})"


def queued_jobs(site: Site, runner: Runner) -> list[QueuedJob] | None:
    """Return the jobs of all users that wait, run or end; None on a host with Slurm's commands and without a cluster.

    Raises:
        EnvmgrError: `slurm-unavailable`, `command-missing`.
    """
    argv = [tool("squeue"), "-h", "--all", "-o", "%i|%u|%T|%V", *where_jobs_go(site)]
    try:
        done = run_slurm(runner, argv, env=tool_env() | _ENV)
    except EnvmgrError as error:
        if UNCONFIGURED in error.message:
            return None
        raise
    if done.returncode:
        raise unavailable(done)
    return [job for line in done.stdout.splitlines() if (job := _job(line)) is not None]


def _job(line: str) -> QueuedJob | None:
    """Read one job; None for the name of a cluster, which squeue prints above its jobs."""
    fields = [field.strip() for field in line.split("|")]
    return QueuedJob(fields[0], fields[1], fields[2], _seconds(fields[3])) if len(fields) == 4 else None


def _seconds(text: str) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(text, _QUEUE_TIME)))
    except ValueError:
        return None
