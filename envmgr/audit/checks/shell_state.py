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
from collections.abc import Iterator, Sequence
from posixpath import normpath
from statistics import median

from envmgr.audit.comparing import QUORUM
from envmgr.audit.model import Check, Evidence, Found, Row, scripts
from envmgr.audit.trace import Traced, set_by
from envmgr.modules.nodesetup import open_hint
from envmgr.probe.model import Fleet, ShellAccount, ShellContext, number_in
from envmgr.probe.shell import context_key
from envmgr.system.modes import as_user, give_back
from envmgr.system.shelltext import quote

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


def judge(evidence: Evidence) -> Iterator[Row]:
    found = [
        each for context, account, fleet in evidence.contexts() for each in _all(context, account, fleet, evidence)
    ]
    yield from found


def _all(context: ShellContext, account: ShellAccount, fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    key, where = f"{context_key(context, account)}shell_state.", evidence.shell(context, account)
    if context.shell.startswith("bash"):
        for reader, nodes in fleet.by_value(f"{key}reader").items():
            if reader != "bash":
                yield Found(
                    "error",
                    where,
                    f"what is for bash is read by {reader}",
                    "bash",
                    "which start-up file has `exec`? let it do that at a terminal alone: `case $- in *i*) exec … ;; esac`",
                    nodes,
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
        yield Found(
            "warning", where, f'a start-up file makes the shell say "{said}"', "no error on stderr", hint, nodes
        )
    for ifs, nodes in fleet.by_value(f"{key}ifs").items():
        yield Found(
            "error",
            where,
            f"IFS is {ifs.strip() or 'empty'}: words are not split at blanks",
            "space, tab and newline",
            set_by(
                nodes,
                context,
                account,
                "IFS",
                " sets IFS: `unset IFS` after it, in that file",
                "which start-up file sets IFS? `unset IFS` after it",
            ),
            nodes,
        )
    yield from _harm(context, account, fleet, evidence)
    for options, nodes in fleet.by_value(f"{key}options").items():
        if options:
            unknown = "which start-up file sets it? take it away there"
            line = set_by(nodes, context, account, ":set", " sets it: take it away there, or set it back", unknown)
            yield Found(
                "error" if {"errexit", "nounset"} & set(options.split()) else "warning",
                where,
                f"start-up files leave {options.replace(' ', ', ')} set",
                "a shell's own options",
                # `shopt -s` is said by many files, of other options
                line if _FLAGS.intersection(options.split()) else unknown,
                nodes,
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


def _harm(context: ShellContext, account: ShellAccount, fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    """What keeps `module` from working there, or a script's input from it."""
    key, where = f"{context_key(context, account)}shell_state.", evidence.shell(context, account)

    def line(name: str, nodes: tuple[str, ...], known: str, unknown: str) -> Traced:
        return set_by(nodes, context, account, _TRACED[name], known, unknown, foreign=name == "bash_env")

    for names, nodes in fleet.by_value(f"{key}readonly").items():
        yield Found(
            "error",
            where,
            f"{names.replace(' ', ', ')} cannot be changed (readonly): `module load` does not",
            "variables that modules can set",
            line(
                "readonly",
                nodes,
                " does it: take that line away",
                "which start-up file says `readonly`, or `declare -r`?",
            ),
            nodes,
        )
    for value, nodes in fleet.by_value(f"{key}bash_env").items():
        mend = "let that file read Lmod's init/bash first, or take the line away"
        yield Found(
            "warning",
            where,
            f"a bash script that sh starts has no `module`: BASH_ENV is {value}",
            "Lmod's init/bash, or a file that reads it",
            line("bash_env", nodes, f" sets BASH_ENV: {mend}", f"which start-up file sets BASH_ENV? {mend}"),
            nodes,
        )
    for said, nodes in fleet.by_value(f"{key}ignores").items():
        yield Found(
            "error",
            where,
            f"the signal {said} is ignored by all that is started there: no job step or program of it ends by it",
            "signals as they are",
            line(
                "ignores",
                nodes,
                " may be the line: `trap - INT QUIT TERM` after it, or take it away",
                "which start-up file says `trap ''`?",
            ),
            nodes,
        )
    for said, nodes in fleet.by_value(f"{key}ends").items():
        status, _, place = said.partition(" ")
        yield Found(
            "error",
            where,
            f"a login shell that ends by `exit 3` tells {status}: jobs that fail count as done",
            "3",
            f"{place}: take `exit` away there",
            nodes,
        )
    yield from _slow(context, account, fleet, evidence)
    for folder, nodes in fleet.by_value(f"{key}folder").items():
        yield Found(
            "warning",
            where,
            f"a start-up file goes to {folder}: relative paths of commands and jobs are others",
            "the folder in which a shell is started",
            line(
                "folder",
                nodes,
                " may be the line: let it go there at a terminal alone, by `case $- in *i*) cd … ;; esac`",
                "which start-up file says `cd`?",
            ),
            nodes,
        )
    for nodes in fleet.by_value(f"{key}input").values():
        yield Found(
            "error",
            where,
            "a start-up file reads standard input: the first line of a script or of data is gone",
            "input that is left to programs",
            line(
                "input",
                nodes,
                " may be the line: let it read at a terminal alone (`[ -t 0 ]`)",
                "which start-up file says `read`?",
            ),
            nodes,
        )


def _slow(context: ShellContext, account: ShellAccount, fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    """A shell whose start-up files wait much longer on a node than on the others, without computing."""
    key = f"{context_key(context, account)}shell_state.waited"
    waited = {node: time for node in fleet.nodes if (time := number_in(fleet.own.get(node, {}), key)) is not None}
    if len(waited) < QUORUM:
        return
    usual = max(0, median(waited.values()))
    slow = [node for node, time in waited.items() if time > usual + SLOW_MS and time > _TIMES * usual]
    if slow:
        yield Found(
            "warning",
            evidence.shell(context, account),
            f"start-up files wait for {max(waited[node] for node in slow) / 1000:.0f} s",
            "start-up files that do not wait, as on the others",
            "`bash -lx` as that user on the node: which line waits, for a server that is gone?",
            slow,
        )


CHECK = Check(judge=judge, probe=scripts(__file__, "context"), wants=frozenset({"modules"}), joins=True)
