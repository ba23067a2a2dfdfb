"""The words of Slurm for a job that waits, or that ended without a result, each with what fixes exactly that.

Sources: squeue(1), JOB REASON CODES and JOB STATE CODES; slurm 22.05 for the exit codes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from envmgr.errors import signal_text

AGAIN = "the same command builds it again; what is finished is kept"
_RESEND = "`{scancel}`, then build with "
_OPTIONS = "transport.slurm_options of site.yaml"

# State and reason -> what lets the job start. A job that waits only for other jobs has no row.
_WAITS = (
    (
        r".* JobHeldUser|(REQUEUE|RESV_DEL)_HOLD .*|SPECIAL_EXIT .*|.* (JobHoldMaxRequeue|ReservationDeleted)",
        "it is held: `{release}` lets it start",
    ),
    (r".* JobHeldAdmin|.* launch failed requeued held", "an administrator holds it: `{release}` as root lets it start"),
    (r"SUSPENDED .*", "`{resume}` as root lets it go on"),
    (r".* PartitionTimeLimit", _RESEND + "a --time that the partition allows (`scontrol show partition`: MaxTime)"),
    (r".* PartitionNodeLimit", _RESEND + "another --partition: this one does not take jobs of one node"),
    (
        r".* Partition(Down|Inactive)",
        "it starts when an administrator sets the partition to state=UP; or " + _RESEND + "another --partition",
    ),
    (r".* (InvalidAccount|AccountNotAllowed)", _RESEND + "another --account"),
    (r".* (InvalidQOS|QOSNotAllowed|QOSUsageThreshold)", _RESEND + f"another --qos in {_OPTIONS}"),
    (r".* (QOS|Assoc)MaxWall.*", _RESEND + "a shorter --time"),
    (r".* (QOS|Assoc)MaxCpu.*Per(Job|Node).*|.* MaxCpuPerAccount", _RESEND + "fewer --cpus"),
    (r".* (QOS|Assoc)MaxMem.*Per(Job|Node).*", _RESEND + f"a smaller --mem in {_OPTIONS}"),
    (r".* QOSMin\w+", _RESEND + "more --cpus, or another --qos in " + _OPTIONS),
    (r".* (QOS|Assoc)\w+Per(Job|Node)\w*", _RESEND + f"less of it, in --cpus or {_OPTIONS}"),
    (
        r".* (QOS|Assoc)Grp\w*Minutes\w*|.* (QOS|Association)TimeLimit",
        "the budget is spent: " + _RESEND + "another --account",
    ),
    (r".* BadConstraints", _RESEND + f"other --cpus, or other constraints in {_OPTIONS}"),
    (r".* DependencyNeverSatisfied", _RESEND + "the same command"),
    (
        r".* (ReqNodeNotAvail.*|Nodes required for job are DOWN.*|NodeDown|FrontEndDown)",
        "`sinfo -R` says which nodes are down, and why; or " + _RESEND + "another --partition",
    ),
)

# State, reason and `exit code:signal` -> what fixes it. The first row that matches counts.
_ENDS = (
    (r"TIMEOUT .*", f"give it more time with --time{{limit}}; {AGAIN}"),
    (r"DEADLINE .*", f"its --deadline was over: give it a later one in {_OPTIONS}; {AGAIN}"),
    (r"OUT_OF_MEMORY .*|.* OutOfMemory .*", f"give it more memory (--mem=… in {_OPTIONS}), or fewer --cpus"),
    (r"BOOT_FAIL .*", f"the node did not start: {AGAIN}"),
    (r"NODE_FAIL .*", f"the node failed: {AGAIN}"),
    (r"PREEMPTED .*", f"a job with a higher priority took its place: {AGAIN}; or use a --partition where none can"),
    (r"\S+ Dependency.*", "Slurm ended it with a job that it waited for; the same command sends it again"),
    (r"\S+ InactiveLimit .*", f"Slurm's InactiveLimit ended it: {AGAIN}"),
    (r"(CANCELLED|REVOKED) .*", f"the job was cancelled: {AGAIN}"),
    (r"\S+ (Prolog|SystemFailure) .*", f"an administrator should read slurmctld's log; then {AGAIN}"),
    (
        r"FAILED .* 0:9",
        f"if the node's memory was full, ask for more (--mem=… in {_OPTIONS}), or fewer --cpus; {AGAIN}",
    ),
    (r"FAILED .* 0:53", "slurmd's log on {node} says why Slurm could not start it there"),
    (r"FAILED .* (130:0|0:(?!0\b)\d+)", f"a signal that Slurm did not send ended it: {AGAIN}"),
    (r"COMPLETED .*", "the prefix of {node} may be another one: `envmgr audit --check prefix` compares them"),
    (r"FAILED .*", f"the last lines of its output are above; then {AGAIN}"),
    (r" .*", f"only slurmctld's log still says how it ended; {AGAIN}"),
)


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The end of a job as Slurm reports it; "" for what it does not report. `code` is `exit code:signal`."""

    state: str = ""
    reason: str = ""
    code: str = ""
    node: str = ""
    limit: str = ""

    @classmethod
    def of(cls, facts: Mapping[str, str]) -> JobEnd:
        """Read what scontrol and sacct name; the state without who cancelled it."""
        found = {name: value for name, value in facts.items() if value not in ("", "None", "(null)", "None assigned")}
        state = found.get("JobState", "").split(" ")[0].rstrip("+")
        named = (found.get(name, "") for name in ("Reason", "ExitCode", "NodeList", "TimeLimit"))
        return cls(state, *named)

    @property
    def by_slurm(self) -> bool:
        """Return whether Slurm ended it, whatever the build said in its last moment."""
        return self.state.startswith(("TIMEOUT", "DEADLINE", "OUT_OF_MEMORY", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL"))

    @property
    def started(self) -> bool:
        """Return whether the job's script may have run."""
        return bool(self.node) and self.code != "0:53"

    def words(self) -> str:
        """Return `Slurm: TIMEOUT, reason TimeLimit, exit code 0:15, on c1`, and a signal by its name."""
        status, _, number = self.code.partition(":")
        killed = number.isdigit() and int(number) and not self.by_slurm and self.code != "0:53"
        parts = [
            f"Slurm: {self.state or 'it does not know the job'}",
            f"reason {self.reason}" if self.reason else "",
            (f"killed by {signal_text(int(number))}" if killed else f"exit code {self.code}") if status else "",
            f"on {self.node}" if self.node else "",
        ]
        return ", ".join(part for part in parts if part)

    def hint(self) -> str:
        key = f"{self.state} {self.reason} {self.code}"
        text = next((text for known, text in _ENDS if re.fullmatch(known, key)), AGAIN)
        return text.format(limit=f" (it had {self.limit})" if self.limit else "", node=self.node or "its node")


def hint_of_waiting(job: str, state: str, why: str, where: Sequence[str]) -> str:
    """Return what lets a job start that waits for more than other jobs; empty for one that waits for them.

    `where` are the options that name its cluster.
    """
    key = f"{state} {why.strip('()')}"
    text = next((text for known, text in _WAITS if re.fullmatch(known, key)), "")
    scontrol = " ".join(["scontrol", *where])
    return text.format(
        scancel=" ".join(["scancel", *where, job]),
        release=f"{scontrol} release {job}",
        resume=f"{scontrol} resume {job}",
    )
