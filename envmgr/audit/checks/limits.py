"""Limits (ulimit) and umask of a shell or job.

The check reports a limit of the address space, the data size or the processor time wherever it is set. Slurm copies the
submitting shell's limits into jobs (PropagateResourceLimits), so a limit that protects a login node makes jobs fail:
where jobs have answered, they tell that. CUDA and large files reserve more address space than there is memory. The check also reports fewer than 1,024 open
files. Nodes are compared by these limits, by processes, stack and locked memory, and by the umask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from envmgr.audit.model import AskedShell, Check, Evidence, Row, Rows, scripts
from envmgr.wording import binary_size

_NO_LIMIT = ("cpu_time", "data_size", "address_space")
_FEW_FILES = 1024
_ENOUGH_FILES = f"{_FEW_FILES} open files or more"


def judge(evidence: Evidence) -> Rows:
    for shell in evidence.each_shell():
        for name, words in evidence.table.words.items():
            option = words.partition(" ")[0]
            values = shell.by_value(f"limits.{name}")
            low = {value: nodes for value, nodes in values.items() if _is_low(name, value)}
            for value, nodes in low.items():
                for row, of in _rows(shell, nodes, evidence).items():
                    yield _low(row, of, shell, name, value, evidence)
            if not low:
                exact = len({_shown(name, value) for value in values}) < len(values)
                yield evidence.compared("differ", values, shell, name=name, say=partial(_said, name, option, exact))


def _rows(shell: AskedShell, nodes: Sequence[str], evidence: Evidence) -> dict[str, list[str]]:
    """Return row -> nodes. Where jobs have answered, they tell whether they take the limit of a login node along."""
    if shell.context.way != "ssh":
        return {"low_in_a_login_job" if shell.context.shell == "bash-login" else "low_in_a_job": [*nodes]}
    jobs = evidence.ways.get("slurm")
    at_login = [node for node in nodes if node in evidence.login and not (jobs and jobs.groups)]
    rows = {"low": [node for node in nodes if node not in evidence.login], "low_at_login": at_login}
    return {row: of for row, of in rows.items() if of}


def _low(row: str, nodes: Sequence[str], shell: AskedShell, name: str, value: str, evidence: Evidence) -> Row:
    if row == "low_in_a_login_job":  # a file of the node may set it, too: the submitting shell's is another finding
        shell = replace(shell, context=replace(shell.context, export="NONE"))
    option, of_slurm = evidence.table.words[name].split()
    return evidence.say(
        row,
        nodes,
        shell,
        limit=name.replace("_", " "),
        shown=_shown(name, value),
        option=option,
        of_slurm=of_slurm,
        enough=_ENOUGH_FILES if name == "open_files" else "no limit: CUDA, large files and long jobs meet it",
    )


def _is_low(name: str, value: str) -> bool:
    if name in _NO_LIMIT:
        return value != "unlimited"
    return name == "open_files" and value.isdecimal() and int(value) < _FEW_FILES


def _shown(name: str, value: str) -> str:
    if value.isdecimal() and name not in ("open_files", "processes"):
        return f"{value} s" if name == "cpu_time" else binary_size(int(value))
    return value


def _said(name: str, option: str, exact: bool, value: str) -> str:
    return f"{name.replace('_', ' ')} is {value if exact else _shown(name, value)} (`ulimit {option}`)"


CHECK = Check(judge=judge, probe=scripts(__file__, "context"), joins=True)
