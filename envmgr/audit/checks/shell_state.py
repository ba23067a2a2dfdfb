"""Each shell is the one that was asked for, and start-up files leave it as scripts expect it.

A start-up file that ends in `exec zsh` makes every `bash -l` a zsh. One that leaves IFS, `set -e`, `set -u`, `set -f`,
posix mode, `nullglob` or the like behind breaks scripts that are read in the same shell: word lists are not split, loops over modules run
once, a command that fails ends the shell. One that goes to another folder takes relative paths from jobs;
one that waits for a dead server makes every login wait; a ~/.bash_logout with `exit` hides that a job failed; a `trap ''` makes all that is
started there deaf to signals. Looked at in bash, in every context that is one; PATH, variables and functions are
the check of `ambient`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from posixpath import normpath
from statistics import median

from envmgr.audit.comparing import QUORUM
from envmgr.audit.folding import joined
from envmgr.audit.model import AuditPlan, Evidence
from envmgr.audit.trace import TraceQuestion, is_ours
from envmgr.finding import Finding
from envmgr.modules.nodesetup import open_hint
from envmgr.nodes import fold
from envmgr.probe.model import Fleet, ProbeStage, ShellAccount, ShellContext, number_in
from envmgr.probe.shell import context_key
from envmgr.system.modes import as_user, give_back
from envmgr.system.shelltext import quote, script_text

NEEDS_MODULES = True
_WRONG = re.compile(
    r"error|not found|no such|denied|cannot|can't|unexpected|undefined|illegal|invalid|unbound|syntax|missing|too many|unmatched|badly",
    re.IGNORECASE,
)
SLOW_MS, _TIMES = 4000, 3  # start-up files wait longer than on the other nodes by so much, and so many times
_NAMES = ("IFS", ":set")
_FLAGS = frozenset({"errexit", "noglob", "nounset", "noclobber", "allexport", "xtrace", "verbose", "posix"})  # of `set`


# What is told -> what is asked of a trace.
_TRACED = {
    "readonly": (":readonly",),
    "bash_env": ("BASH_ENV",),
    "input": (":read",),
    "folder": (":cd",),
    "ignores": (":trap",),
}


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:  # noqa: ARG001 - the same for every plan
    return {"context": script_text(__file__, "context.sh")}


def trace_questions(evidence: Evidence) -> Iterator[TraceQuestion]:
    for context, account, fleet in evidence.contexts():
        key = f"{context_key(context, account)}shell_state."
        values = [*fleet.by_value(f"{key}ifs").values(), *(n for v, n in fleet.by_value(f"{key}options").items() if v)]
        for name, asked in _TRACED.items():
            for nodes in fleet.by_value(f"{key}{name}").values():
                yield TraceQuestion(nodes[0], context, account, asked)
        for nodes in values:
            yield TraceQuestion(nodes[0], context, account, _NAMES)


def judge(evidence: Evidence) -> Iterator[Finding]:
    found = [
        each for context, account, fleet in evidence.contexts() for each in _all(context, account, fleet, evidence)
    ]
    yield from joined(found)


def _all(context: ShellContext, account: ShellAccount, fleet: Fleet, evidence: Evidence) -> Iterator[Finding]:
    key, where = f"{context_key(context, account)}shell_state.", evidence.shell(context, account)
    if context.shell.startswith("bash"):
        for reader, nodes in fleet.by_value(f"{key}reader").items():
            if reader != "bash":
                yield Finding(
                    "shell-state",
                    "error",
                    where,
                    f"what is for bash is read by {reader}",
                    "bash",
                    "which start-up file has `exec`? let it do that at a terminal alone: `case $- in *i*) exec … ;; esac`",
                    fold(nodes),
                )
    for said, nodes in fleet.by_value(f"{key}said").items():
        if not _WRONG.search(said):
            continue
        file = found[1] if (found := re.match(r"(/\S+): line [0-9]+: ", said)) else ""
        hint = (
            f"what is in that line of {file}?"
            if file
            else f"`{'csh -X' if context.shell == 'csh' else 'bash -lx'} -c true` as that user shows the line"
        )
        if denied := re.search(r"(/\S+): Permission denied", said):
            closed = [file for lines in fleet.by_value(f"{key}closed") for file in lines.splitlines()]
            hint = _denied(denied[1], evidence.account(account), evidence, closed)
        if "\\x0d" in said or "\\r" in said:
            hint = f"Windows' line ends: `{_without_returns(file, evidence.account(account))}`"
        yield Finding(
            "shell-state",
            "warning",
            where,
            f'a start-up file makes the shell say "{said}"',
            "no error on stderr",
            hint,
            fold(nodes),
        )
    for ifs, nodes in fleet.by_value(f"{key}ifs").items():
        place = evidence.traces.place(nodes, context, account, "IFS")
        yield Finding(
            "shell-state",
            "error",
            where,
            f"IFS is {ifs.strip() or 'empty'}: words are not split at blanks",
            "space, tab and newline",
            f"{place} sets IFS: `unset IFS` after it, in that file"
            if place
            else "which start-up file sets IFS? `unset IFS` after it",
            fold(nodes),
        )
    yield from _harm(context, account, fleet, evidence)
    for options, nodes in fleet.by_value(f"{key}options").items():
        if options:
            # `shopt -s` is said by many files, of other options
            place = (
                evidence.traces.place(nodes, context, account, ":set") if _FLAGS.intersection(options.split()) else ""
            )
            yield Finding(
                "shell-state",
                "error" if {"errexit", "nounset"} & set(options.split()) else "warning",
                where,
                f"start-up files leave {options.replace(' ', ', ')} set",
                "a shell's own options",
                f"{place} sets it: take it away there, or set it back"
                if place
                else "which start-up file sets it? take it away there",
                fold(nodes),
            )


def _without_returns(file: str, user: str) -> str:
    """Root changes what is in /etc; all else the user does, who may have put a link on the way to it."""
    command = f"sed -i 's/\\r$//' {quote(file) if file else 'FILE'}"
    return command if not file or (file == normpath(file) and file.startswith("/etc/")) else as_user(user, command)


def _denied(file: str, user: str, evidence: Evidence, closed: Sequence[str]) -> str:
    """Of a file that a start-up file reads: most are closed on purpose. `closed` are another's in the home itself, as the user's shell says."""
    name = file.rpartition("/")[2]
    if file in closed and re.match(r"\.[^.]", name):
        return f"as root: `{give_back(user, name)}` where it is that user's own, and another's by mistake"
    return f"{open_hint(evidence.site, [file], whom=user)}; or take the line that reads it out of the start-up file"


def _harm(context: ShellContext, account: ShellAccount, fleet: Fleet, evidence: Evidence) -> Iterator[Finding]:
    """What keeps `module` from working there, or a script's input from it."""
    key, where = f"{context_key(context, account)}shell_state.", evidence.shell(context, account)

    def who(name: str, nodes: tuple[str, ...]) -> str:
        places = (evidence.traces.place(nodes, context, account, each) for each in _TRACED[name])
        return next((place for place in places if place), "")

    for names, nodes in fleet.by_value(f"{key}readonly").items():
        place = who("readonly", nodes)
        yield Finding(
            "shell-state",
            "error",
            where,
            f"{names.replace(' ', ', ')} cannot be changed (readonly): `module load` does not",
            "variables that modules can set",
            f"{place} does it: take that line away"
            if place
            else "which start-up file says `readonly`, or `declare -r`?",
            fold(nodes),
        )
    for value, nodes in fleet.by_value(f"{key}bash_env").items():
        place = who("bash_env", nodes)
        mend = "let that file read Lmod's init/bash first, or take the line away"
        yield Finding(
            "shell-state",
            "warning",
            where,
            f"a bash script that sh starts has no `module`: BASH_ENV is {value}",
            "Lmod's init/bash, or a file that reads it",
            f"{place} sets BASH_ENV: {mend}"
            if place and not is_ours(place)
            else f"which start-up file sets BASH_ENV? {mend}",
            fold(nodes),
        )
    for said, nodes in fleet.by_value(f"{key}ignores").items():
        place = who("ignores", nodes)
        yield Finding(
            "shell-state",
            "error",
            where,
            f"the signal {said} is ignored by all that is started there: no job step or program of it ends by it",
            "signals as they are",
            f"{place} may be the line: `trap - INT QUIT TERM` after it, or take it away"
            if place
            else "which start-up file says `trap ''`?",
            fold(nodes),
        )
    for said, nodes in fleet.by_value(f"{key}ends").items():
        status, _, place = said.partition(" ")
        yield Finding(
            "shell-state",
            "error",
            where,
            f"a login shell that ends by `exit 3` tells {status}: jobs that fail count as done",
            "3",
            f"{place}: take `exit` away there",
            fold(nodes),
        )
    yield from _slow(context, account, fleet, evidence)
    for folder, nodes in fleet.by_value(f"{key}folder").items():
        place = who("folder", nodes)
        yield Finding(
            "shell-state",
            "warning",
            where,
            f"a start-up file goes to {folder}: relative paths of commands and jobs are others",
            "the folder in which a shell is started",
            f"{place} may be the line: let it go there at a terminal alone, by `case $- in *i*) cd … ;; esac`"
            if place
            else "which start-up file says `cd`?",
            fold(nodes),
        )
    for nodes in fleet.by_value(f"{key}input").values():
        place = who("input", nodes)
        yield Finding(
            "shell-state",
            "error",
            where,
            "a start-up file reads standard input: the first line of a script or of data is gone",
            "input that is left to programs",
            f"{place} may be the line: let it read at a terminal alone (`[ -t 0 ]`)"
            if place
            else "which start-up file says `read`?",
            fold(nodes),
        )


def _slow(context: ShellContext, account: ShellAccount, fleet: Fleet, evidence: Evidence) -> Iterator[Finding]:
    """A shell whose start-up files wait much longer on a node than on the others, without computing."""
    key = f"{context_key(context, account)}shell_state.waited"
    waited = {node: time for node in fleet.nodes if (time := number_in(fleet.own.get(node, {}), key)) is not None}
    if len(waited) < QUORUM:
        return
    usual = max(0, median(waited.values()))
    slow = [node for node, time in waited.items() if time > usual + SLOW_MS and time > _TIMES * usual]
    if slow:
        yield Finding(
            "shell-state",
            "warning",
            evidence.shell(context, account),
            f"start-up files wait for {max(waited[node] for node in slow) / 1000:.0f} s",
            "start-up files that do not wait, as on the others",
            "`bash -lx` as that user on the node: which line waits, for a server that is gone?",
            fold(slow),
        )


__all__ = ["judge", "probe", "trace_questions"]
