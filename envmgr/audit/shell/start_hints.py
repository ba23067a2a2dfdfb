"""Parts of the check `contexts`: `module` in other shells, terminals, and start-up files of interactive shells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envmgr.audit.causes import Traced, set_by
from envmgr.audit.compare.between_nodes import drift
from envmgr.audit.model import Evidence, Found, Row
from envmgr.audit.shell.modulepath import NO_MODULE, module_command
from envmgr.audit.wording import short
from envmgr.probe.model import Facts, Fleet, ShellAccount, ShellContext
from envmgr.probe.shell import NO_USER, NO_USER_HINT, context_key
from envmgr.system.shelltext import script_text


def start_hint(nodes: Sequence[str], context: ShellContext, account: ShellAccount, end: str) -> str | Traced:
    """Return the hint for a shell that ended as `end` says: the line that ended it, if a trace shows one."""
    if end.startswith(NO_USER):
        return NO_USER_HINT
    known = " ends the shell, or puts another program in its place: let it do that at a terminal alone, by `case $- in *i*)`"
    return set_by(nodes, context, account, ":end", known, _try(context))


def _try(context: ShellContext) -> str:
    commands = {
        "bash-login": "bash -l",
        "bash": "bash -c true",
        "csh": "csh -c true",
        "sh": "sh -c true",
        "wrap": "sh -c true",
        "zsh": "zsh -lc true",
        "bash-interactive": "bash -i",
    }
    if context.step:
        command = "srun --pty bash -i" if context.shell == "bash-interactive" else "srun bash -c true"
        return f"try `{command}` in a job of that user on the node"
    return f"try `{commands[context.shell]}` as that user on the node"


def posix_hint(nodes: Sequence[str], context: ShellContext, account: ShellAccount) -> Traced:
    """Return the hint for a bash in posix mode, in which it reads neither start-up files nor BASH_ENV."""
    mode = "bash is in posix mode there, and reads no file that defines `module`"
    known = f" sets POSIXLY_CORRECT: {mode}; take that line away"
    unknown = f"{mode}: which start-up file sets POSIXLY_CORRECT, or says `set -o posix`?"
    return set_by(nodes, context, account, "POSIXLY_CORRECT", known, unknown)


_MOUNT = "mount -t devpts -o gid=5,mode=620,ptmxmode=0666 devpts /dev/pts"
# The answer of the shell text, without a number at its end -> the cause, and the fix.
_CAUSES = {
    "unmounted": ("/dev/pts is no mounted devpts", f"on the node: `{_MOUNT}`, and its line in /etc/fstab"),
    "link": (
        "/dev/ptmx has mode {}, by the ptmxmode of /dev/pts",
        "on the node: `mount -o remount,ptmxmode=0666 /dev/pts`; what mounted it so, /etc/fstab or a chroot's script?",
    ),
    "device": (
        "/dev/ptmx has mode {}",
        "on the node: `udevadm trigger --name-match=ptmx` gives it the mode of udev's rules, which is 666; which rule made it so?",
    ),
    "full": (
        "all {} are in use",
        "on the node: `fuser -v /dev/pts/*` tells who has them; `sysctl kernel.pty.max` is how many there may be",
    ),
}


_OTHER = ("the node reports `{}`", "on the node, as that user: `script -qc true /dev/null` says what is missing")


def terminal() -> str:
    """Return shell text for the stage `node`, which reports the fact `terminal` if users can open no terminal."""
    return script_text(__file__, "terminal.sh")


def terminal_findings(evidence: Evidence) -> Iterator[Row]:
    for said, nodes in evidence.fleet.by_value("terminal").items():
        cause, _, number = said.partition(" ")
        what, mend = _CAUSES.get(cause, _OTHER)
        yield Found(
            "error",
            "/dev/ptmx",
            f"users can open no pseudo-terminal: {what.format(short(number or said))}",
            "terminals for `srun --pty`, ssh sessions, tmux and script",
            mend,
            nodes,
        )


def without_terminal(evidence: Evidence) -> frozenset[str]:
    """Return the nodes on which users can open no terminal.

    It follows that shells at a terminal do not start there.
    """
    return frozenset(node for nodes in evidence.fleet.by_value("terminal").values() for node in nodes)


def module_commands(evidence: Evidence) -> Iterator[Row]:
    """Yield nodes whose `module` differs from that of like nodes, and kinds of shell that differ from login bash.

    A kind of shell without `module`, where login bash has one, also differs.
    """
    usual: dict[tuple[str, str], str] = {}  # account, node -> what login bash has
    probed = [
        (context, account, context_key(context, account), _probed(fleet, context_key(context, account)))
        for context, account, fleet in evidence.contexts()
    ]
    for context, account, key, fleet in probed:
        if context.name == "bash-login":
            usual |= {(account, n): module_command(g.facts, key) for g in fleet.groups for n in g.nodes}
    if usual and set(usual.values()) == {NO_MODULE}:
        lacking = {node for _, node in usual}
        yield Found(
            "error",
            "login shells",
            "there is no `module` command, of Lmod or of Environment Modules",
            "one of them",
            "install one; or is it not for all users? `type module` in a login shell",
            lacking,
        )
        return
    for context, account, key, fleet in probed:
        where = evidence.shell(context, account)
        values = fleet.by(lambda facts, key=key: module_command(facts, key))  # type: ignore[misc]
        yield from drift(
            where,
            values,
            evidence,
            what="module",
            severity="error",
            say=lambda value: value,
            hint="is it installed there, and is its file in /etc/profile.d read? `type module` in that shell",
        )
        for value, nodes in values.items():
            other: dict[str, list[str]] = {}
            for node in nodes:
                if (right := usual.get((account, node), value)) not in (value, NO_MODULE):
                    other.setdefault(right, []).append(node)
            for right, of in other.items():
                if context.shell == "wrap" or len(values) > 1:  # wrap reads no start-up file; else reported above
                    continue
                yield Found(
                    "note" if value == NO_MODULE else "warning",
                    where,
                    value,
                    f"{right}, as in bash-login",
                    "which start-up file defines `module`? not all shells read it: see `envmgr audit --explain contexts`",
                    of,
                )


def _probed(fleet: Fleet, key: str) -> Fleet:
    def has(facts: Facts) -> bool:
        return f"{key}module" in facts

    return fleet.only(has)
