"""What a shell or job may use: its limits (ulimit) and its umask.

Told wherever it is: a limit of the address space, of the data size or of the time on the processor. Slurm takes a submitting shell's limits
along into jobs (PropagateResourceLimits), so that what protects a login node makes jobs fail: CUDA and large files reserve more
address space than there is memory. Fewer than 1,024 open files are told, too. Node against node: these, processes, stack, locked memory
and the umask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.comparing import drift
from envmgr.audit.folding import joined
from envmgr.audit.model import AuditPlan, Evidence
from envmgr.audit.trace import TraceQuestion
from envmgr.finding import Finding
from envmgr.nodes import fold
from envmgr.probe.model import ProbeStage, ShellAccount, ShellContext
from envmgr.probe.shell import context_key
from envmgr.system.shelltext import script_text

# As /proc/self/limits calls it -> (the option of ulimit, Slurm's name of it).
_LIMITS: Mapping[str, tuple[str, str]] = {
    "cpu_time": ("-t", "CPU"),
    "data_size": ("-d", "DATA"),
    "address_space": ("-v", "AS"),
    "open_files": ("-n", "NOFILE"),
    "processes": ("-u", "NPROC"),
    "stack_size": ("-s", "STACK"),
    "locked_memory": ("-l", "MEMLOCK"),
}
_NO_LIMIT = ("cpu_time", "data_size", "address_space")
_FEW_FILES = 1024


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:  # noqa: ARG001 - the same for every plan
    return {"context": script_text(__file__, "context.sh")}


def trace_questions(evidence: Evidence) -> Iterator[TraceQuestion]:
    """Which line calls `ulimit`, in one shell of each that is told."""
    for context, account, fleet in evidence.contexts():
        for name in _NO_LIMIT:
            for value, nodes in fleet.by_value(f"{context_key(context, account)}limits.{name}").items():
                if value != "unlimited":
                    yield TraceQuestion(nodes[0], context, account, (":ulimit",))
        umasks = fleet.by_value(f"{context_key(context, account)}limits.umask")
        if len(umasks) > 1:
            for nodes in umasks.values():
                yield TraceQuestion(nodes[0], context, account, (":umask",))


def judge(evidence: Evidence) -> Iterator[Finding]:
    yield from joined(_all(evidence))


def _all(evidence: Evidence) -> Iterator[Finding]:
    for context, account, fleet in evidence.contexts():
        key, where = f"{context_key(context, account)}limits.", evidence.shell(context, account)
        for name, (option, of_slurm) in _LIMITS.items():
            values = fleet.by_value(f"{key}{name}")
            for value, nodes in values.items():
                if _is_low(name, value):
                    yield Finding(
                        "limits",
                        "warning",
                        where,
                        f"{name.replace('_', ' ')} is limited to {_shown(name, value)} (`ulimit {option}`)",
                        f"{_FEW_FILES} open files or more"
                        if name == "open_files"
                        else "no limit: CUDA, large files and long jobs meet it",
                        _hint(option, of_slurm, nodes, context, account, evidence),
                        fold(nodes),
                    )
            if not any(_is_low(name, value) for value in values):
                yield from drift(
                    "limits",
                    where,
                    values,
                    evidence,
                    what=name,
                    hint="compare /etc/security/limits.conf and its limits.d, and how slurmd is started",
                    say=lambda value, name=name, option=option: (
                        f"{name.replace('_', ' ')} is {_shown(name, value)} (`ulimit {option}`)"
                    ),  # type: ignore[misc]
                )
        umasks = fleet.by_value(f"{key}umask")
        traced = [(evidence.traces.place(nodes, context, account, ":umask"), fold(nodes)) for nodes in umasks.values()]
        said = "; ".join(f"{place} sets it on {nodes}" for place, nodes in traced if place)
        yield from drift(
            "limits",
            where,
            umasks,
            evidence,
            what="umask",
            hint=said or "which start-up file, or pam_umask, sets it?",
            say=lambda value: f"umask is {value}",
        )


def _is_low(name: str, value: str) -> bool:
    if name in _NO_LIMIT:
        return value != "unlimited"
    return name == "open_files" and value.isdecimal() and int(value) < _FEW_FILES


def _shown(name: str, value: str) -> str:
    if value.isdecimal() and name not in ("open_files", "processes"):
        return f"{value} s" if name == "cpu_time" else f"{int(value) / (1 << 30):.3g} GiB"
    return value


def _hint(
    option: str, of_slurm: str, nodes: tuple[str, ...], context: ShellContext, account: ShellAccount, evidence: Evidence
) -> str:
    if context.way == "slurm":
        return (
            f"jobs take the submitting shell's limits along: `PropagateResourceLimitsExcept={of_slurm}` in slurm.conf, or raise "
            f"`ulimit {option}` in start-up files of the host where users submit"
        )
    place = evidence.traces.place(nodes, context, account, ":ulimit")
    return (
        f"{place} sets it: take it away there"
        if place
        else "/etc/security/limits.conf, limits.d, or a `ulimit` in a start-up file"
    )


__all__ = ["judge", "probe", "trace_questions"]
