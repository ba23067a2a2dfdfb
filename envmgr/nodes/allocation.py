"""One Slurm job over several nodes, held for as long as it is wanted: for what has to run on all of them together."""

from __future__ import annotations

import math
import re
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.nodes import tool, tool_env
from envmgr.nodes.access import SlurmNodes, access_options
from envmgr.nodes.jobs import SLURM_DOWN, end_jobs
from envmgr.nodes.sets import fold
from envmgr.nodes.slurm import job_name, longest_job, slurm_names, slurm_reason, time_limit
from envmgr.system.run import Runner
from envmgr.system.shelltext import script_text
from envmgr.system.users import session_as

_ENDING = 10.0  # seconds that salloc may take to give its nodes back
# Errors of salloc when it has waited for as long as it should.
# Source: slurm 22.05, slurm_errno.c, and allocate.c for the second.
_BUSY = re.compile(
    r"Immediate execution impossible|resources: Connection timed out|nodes are busy|allocation [0-9]+ has been revoked"
)


@dataclass(frozen=True, slots=True)
class Allocation:
    """A granted job: its number, its nodes in Slurm's order, and the variables of a batch script on the first."""

    job: str
    nodes: tuple[str, ...]
    environ: Mapping[str, str]


class _Enough(Exception):  # noqa: N818 - our own way out of the stream
    pass


@contextmanager
def allocated(
    count: int,
    among: Sequence[str],
    *,
    slurm: SlurmNodes,
    site: Site,
    runner: Runner,
    user: str | None,
    seconds: float,
    patience: float,
) -> Iterator[Allocation]:
    """Yield a job of `count` nodes that Slurm chooses from `among`, for `seconds` at most.

    It runs as `user` (if this process is root; else as the current user). It waits `patience` seconds in the queue. It
    ends with the block, and with this process, in any case.

    Raises:
        EnvmgrError: `job-not-started`, `job-refused`, `slurm-unavailable`.
    """
    known = slurm_names(slurm.nodes, among)
    options = access_options(tuple(known.values()), slurm, given=site.transport.slurm_options)
    most = longest_job(runner, options)
    nonce, env = secrets.token_hex(8), tool_env()
    mark = f"--envmgr-{nonce}--"
    size = (f"--nodes={count}", "--ntasks-per-node=1", f"--job-name={job_name(nonce)}", "--chdir=/")
    limits = (f"--time={time_limit(seconds, most)}", f"--immediate={max(1, math.ceil(patience))}")
    program = ("/bin/sh", "-c", script_text(__file__, "hold.sh"), mark)
    argv = (*session_as(user, env, find=tool), tool("salloc"), "--quiet", *size, *limits, *options, *program)
    holder = _Holder(argv, env, mark, runner)
    try:
        holder.start()
        words = holder.granted()
        if words is None:
            raise _refused(holder.errors, count, among, options, patience)
        yield _allocation(words)
    finally:
        holder.end()
        # salloc may have been killed before it gave the job back.
        if holder.job:
            end_jobs([holder.job], site)


class _Holder:
    """salloc in a thread. Its stdin is a pipe of this process, so that it ends with this process."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], mark: str, runner: Runner) -> None:
        self.errors = ""
        self.job = ""
        self._argv, self._env, self._mark = argv, env, mark
        self._runner = runner
        self._words: list[str] | None = None
        self._known, self._over = threading.Event(), threading.Event()
        self._failed: EnvmgrError | None = None
        self._thread = threading.Thread(target=self._hold, name="salloc", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def granted(self) -> list[str] | None:
        """Return the words of the job's first line once it has started, None where salloc ended first. Raises
        Interrupted.
        """
        while not self._known.wait(0.1):
            self._runner.raise_if_cancelled()
        self._runner.raise_if_cancelled()
        if self._failed is not None:
            raise self._failed
        return self._words

    def end(self) -> None:
        self._over.set()
        self._thread.join(_ENDING)

    def _hold(self) -> None:
        try:
            done = Runner().stream(self._argv, stdin="", on_line=self._line, on_tick=self._tick, env=self._env)
            self.errors = done.stderr
        except _Enough:
            pass
        except EnvmgrError as error:
            self._failed = error
        finally:
            self._known.set()

    def _line(self, line: str) -> None:
        # The mark is random, so that no output of a site's own prolog looks like this line.
        if line.startswith(f"{self._mark} "):
            self._words = line.split()[1:]
            self.job = self._words[0]
            self._known.set()

    def _tick(self) -> None:
        if self._over.is_set():
            raise _Enough


def _allocation(words: Sequence[str]) -> Allocation:
    job, nodes, cpus, partition, *hosts = words
    environ = {
        "SLURM_JOB_ID": job,
        "SLURM_JOBID": job,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NODELIST": nodes,
        "SLURM_JOB_NUM_NODES": str(len(hosts)),
        "SLURM_NNODES": str(len(hosts)),
        "SLURM_JOB_CPUS_PER_NODE": cpus,
        "SLURM_JOB_PARTITION": partition,
    }
    return Allocation(job, tuple(hosts), environ)


def _refused(errors: str, count: int, among: Sequence[str], options: Sequence[str], patience: float) -> EnvmgrError:
    said = slurm_reason(errors.encode()) or "salloc ended and said nothing"
    if SLURM_DOWN.search(errors):
        return EnvmgrError(
            "slurm-unavailable", f"Slurm does not answer: {said}", hint="is slurmctld up (`scontrol ping`)?"
        )
    if _BUSY.search(errors):
        return EnvmgrError(
            "job-not-started",
            f"no job of {count} nodes started within {patience:.0f} s",
            context=f"on {fold(among)}, with {' '.join(options)}",
            hint="`sinfo` and `squeue` show who has them; `transport.queue_timeout` in site.yaml is how long to wait",
        )
    return EnvmgrError(
        "job-refused",
        f"Slurm does not take the job: {said}",
        context=" ".join([f"--nodes={count}", *options]),
        hint="see -N and --nodes, and transport.slurm_options in site.yaml",
    )
