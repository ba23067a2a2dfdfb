"""Each shell is the one that was asked for, and start-up files leave it as scripts expect it.

The check looks at bash, in every context that is a bash. The check `ambient` looks at PATH, variables and functions.
Start-up files break shells in these ways:

- `exec zsh` at the end makes every `bash -l` a zsh.
- A changed IFS, `set -e`, `set -u`, `set -f`, posix mode, `nullglob` or the like breaks scripts that are read in the
  same shell. Word lists are not split, loops over modules run once, and a command that fails ends the shell.
- A change to another folder takes relative paths from jobs.
- A wait for a dead server makes every login wait.
- A ~/.bash_logout with `exit` hides that a job failed.
- A `trap ''` makes everything that is started there ignore signals. INT and QUIT are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf
from posixpath import normpath
from statistics import median

from envmgr.audit.model import QUORUM, AskedShell, Check, Evidence, Rows, scripts
from envmgr.audit.openings import open_steps
from envmgr.audit.table import Steps
from envmgr.probe.model import number_in
from envmgr.report import Severity
from envmgr.system.modes import as_user, give_back
from envmgr.system.shelltext import quote

_WRONG = re.compile(
    r"error|not found|no such|denied|cannot|can't|unexpected|undefined|illegal|invalid|unbound|syntax|missing|too many|unmatched|badly",
    re.IGNORECASE,
)
SLOW_MS, _TIMES = 4000, 3  # slow: so many ms more than on the other nodes, and so many times as long
_FLAGS = frozenset({"errexit", "noglob", "nounset", "noclobber", "allexport", "xtrace", "verbose", "posix"})  # of `set`


def judge(evidence: Evidence) -> Rows:
    for shell in evidence.each_shell():
        for said, nodes in shell.by_value("shell_state.said").items():
            if _WRONG.search(said):
                of = re.search(r": (/[^\s:]+): [^:/]+$", said)  # the file, where it names one
                yield evidence.say(
                    "said", nodes, shell, said=said, of=of[1] if of else said, hint=_fix(said, shell, evidence)
                )
        for options, nodes in shell.by_value("shell_state.options").items():
            left = frozenset(options.split())
            if left:  # many files use `shopt -s`, for other options than those of `set`
                severity: Severity = "error" if {"errexit", "nounset"} & left else "warning"
                traced = " ".join(f":{'set' if each in _FLAGS else 'shopt'}-{each}" for each in options.split())
                yield evidence.say("options", nodes, shell, severity, options=options, traced=traced)
        yield from _slow(shell, evidence)


def _fix(said: str, shell: AskedShell, evidence: Evidence) -> Steps:
    """Return the steps for a message that start-up files make a shell print."""
    file = found[1] if (found := re.match(r"(/\S+): line [0-9]+: ", said)) else ""
    if "\\x0d" in said or "\\r" in said:
        return _without_returns(file, shell.user)
    if denied := re.search(r"(/\S+): Permission denied", said):
        closed = [file for lines in shell.by_value("shell_state.closed") for file in lines.splitlines()]
        return _denied(denied[1], shell.user, evidence, closed)
    if file:
        return Steps(look=f"what is in that line of {file}?")
    command = f"`{'csh -X' if shell.context.shell == 'csh' else 'bash -lx'} -c true`"
    return Steps(look=f"{command} as that user shows the line")


def _without_returns(file: str, user: str) -> Steps:
    """Return the steps that remove carriage returns from a file: as root only in /etc, else as the user.

    The user may have put a link on the way to a file elsewhere.
    """
    command, why = f"sed -i 's/\\r$//' {quote(file) if file else 'FILE'}", "it has Windows' line ends"
    if not file:
        return Steps(look=f"a start-up file has Windows' line ends: `{command}`")
    if file == normpath(file) and file.startswith("/etc/"):
        return Steps(run=command, look=why)
    return Steps(run=as_user(user, command), look=why)


def _denied(file: str, user: str, evidence: Evidence, closed: Sequence[str]) -> Steps:
    """Return the steps for a file that a start-up file reads and `user` cannot: most such files are closed on purpose.

    `closed` are files of another owner in the home itself, by the report of the user's shell.
    """
    name = file.rpartition("/")[2]
    if file in closed and re.match(r"\.[^.]", name):
        return Steps(look=f"as root: `{give_back(user, name)}` where it is that user's own, and another's by mistake")
    look = "or take the line that reads it out of the start-up file"
    return open_steps(evidence.site, [file], whom=user, look=look)


def _slow(shell: AskedShell, evidence: Evidence) -> Rows:
    """Yield shells whose start-up files wait much longer on a node than on the others, without computing."""
    fleet, key = shell.fleet, f"{shell.key}shell_state.waited"
    waited = {node: time for node in fleet.nodes if (time := number_in(fleet.own.get(node, {}), key)) is not None}
    usual = max(0, median(waited.values())) if len(waited) >= QUORUM else inf
    if slow := [node for node, time in waited.items() if time > usual + SLOW_MS and time > _TIMES * usual]:
        yield evidence.say("slow", slow, shell, seconds=max(waited[node] for node in slow) / 1000)


CHECK = Check(judge=judge, probe=scripts(__file__, "context"), wants=frozenset({"modules"}), joins=True)
