"""What a shell or job may use: its limits (ulimit) and its umask.

Told wherever it is: a limit of the address space, of the data size or of the time on the processor. Slurm takes a submitting shell's limits
along into jobs (PropagateResourceLimits), so that what protects a login node makes jobs fail: CUDA and large files reserve more
address space than there is memory. Fewer than 1,024 open files are told, too. Node against node: these, processes, stack, locked memory
and the umask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.comparing import drift
from envmgr.audit.model import Check, Evidence, Found, Row, scripts
from envmgr.audit.trace import Traced, set_by, set_on
from envmgr.probe.model import ShellAccount, ShellContext
from envmgr.probe.shell import context_key

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


def judge(evidence: Evidence) -> Iterator[Row]:
    yield from _all(evidence)


def _all(evidence: Evidence) -> Iterator[Row]:
    for context, account, fleet in evidence.contexts():
        key, where = f"{context_key(context, account)}limits.", evidence.shell(context, account)
        for name, (option, of_slurm) in _LIMITS.items():
            values = fleet.by_value(f"{key}{name}")
            for value, nodes in values.items():
                if _is_low(name, value):
                    yield Found(
                        "warning",
                        where,
                        f"{name.replace('_', ' ')} is limited to {_shown(name, value)} (`ulimit {option}`)",
                        f"{_FEW_FILES} open files or more"
                        if name == "open_files"
                        else "no limit: CUDA, large files and long jobs meet it",
                        _hint(option, of_slurm, nodes, context, account),
                        nodes,
                    )
            if not any(_is_low(name, value) for value in values):
                yield from drift(
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
        yield from drift(
            where,
            umasks,
            evidence,
            what="umask",
            hint=set_on(umasks, context, account, ":umask", "which start-up file, or pam_umask, sets it?"),
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
    option: str, of_slurm: str, nodes: tuple[str, ...], context: ShellContext, account: ShellAccount
) -> str | Traced:
    if context.way == "slurm":
        return (
            f"jobs take the submitting shell's limits along: `PropagateResourceLimitsExcept={of_slurm}` in slurm.conf, or raise "
            f"`ulimit {option}` in start-up files of the host where users submit"
        )
    unknown = "/etc/security/limits.conf, limits.d, or a `ulimit` in a start-up file"
    return set_by(nodes, context, account, ":ulimit", " sets it: take it away there", unknown)


CHECK = Check(judge=judge, probe=scripts(__file__, "context"), joins=True)
