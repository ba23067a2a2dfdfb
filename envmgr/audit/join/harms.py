"""Harms: what users of a node do not get, or get otherwise than published, one node at a time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from envmgr.audit.findings import AuditFinding, Loose
from envmgr.probe.model import CONTEXTS, ShellAccount, ShellContext

# What comes first in the life of a shell: what is wrong later follows from what is wrong before.
_LIFE = ("slurm", "nodes", "ssh", "mount", "generation", "contexts", "loading", "resolution", "software")
_STATE = "inventory"  # what is known to harm, wherever it is: a note of it is traced, too
_OF_LOGIN = _LIFE[_LIFE.index("contexts") + 1 :]  # asked in the user's login shell
_OF_SENDER = "submitting"  # asked on the host that sends jobs
_IN_LOGIN = re.compile(r" in a login shell: |the login shell ended")  # as the check `nodes` says of a stage, or of jobs
_PATH = re.compile(r"(?<![\w.])/[\w.+@-]+(?:/[\w.+@-]+)*")
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]{2,}\b")
_PLACE = re.compile(r"(/[\w.+/@-]+):(?: line )?(\d+)\b")


@dataclass(frozen=True, slots=True)
class Harm:
    """A finding on one of its nodes, in one shell; `context` is None for what is about no shell. `alike`: all nodes that were
    asked have the same one. `sets` are variables and commands of which a line of a start-up file may be the cause.
    What is `sent` is of jobs that this host submits: no path that they name is its own.
    """

    finding: AuditFinding
    node: str
    context: ShellContext | None
    account: ShellAccount
    alike: bool
    sets: tuple[str, ...] = ()
    sent: bool = False

    @property
    def inherited(self) -> bool:
        """Return whether jobs have it alike on all nodes: what the host that submits them has may explain it."""
        in_job = (self.context and self.context.way == "slurm") or self.finding.where.startswith("Slurm ")
        return self.alike and bool(in_job or self.finding.check == _OF_SENDER)

    @property
    def is_state(self) -> bool:
        """Return whether it is a state of a shell or node that is known to harm."""
        return self.finding.check == _STATE

    @property
    def breaks(self) -> bool:
        """Return whether all that is wrong later in its shell follows from it."""
        return not self.is_state or self.finding.severity == "error"

    @property
    def text(self) -> str:
        return f"{self.finding.where}: {self.finding.found}"

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths that it names, or where something else is expected, the most exact first."""
        named = () if self.sent else (*_PATH.findall(f"{self.text} {self.finding.expected}"),)
        return tuple(sorted({*named}, key=len, reverse=True))

    @property
    def names(self) -> frozenset[str]:
        """Return the variables that it names."""
        return frozenset(_VARIABLE.findall(self.text))

    @property
    def line(self) -> str:
        """Return the FILE:LINE that it names itself, as shells do; empty for none."""
        found = _PLACE.search(self.finding.found)
        return f"{found[1]}:{found[2]}" if found else ""

    @property
    def stage(self) -> int:
        """Return how early in the life of a shell it is: in one check, what start-up files set comes before what follows from that."""
        check = self.finding.check
        if self.is_state:
            return 2 * _LIFE.index("contexts") - 1 if self.context else -1
        return 2 * (_LIFE.index(check) if check in _LIFE else len(_LIFE)) + (not self.sets)


def harms_of(loose: Iterable[Loose], nodes: frozenset[str]) -> Iterator[Harm]:
    """Yield each finding on each of its nodes, and in each of its shells, but of notes of checks those that a line of a start-up file may have caused. `nodes` are those that were asked."""
    for one in loose:
        if one.finding.severity == "note" and one.finding.check != _STATE and not one.names:
            continue
        login = one.finding.check in _OF_LOGIN or _IN_LOGIN.search(one.finding.found)
        context = next((each for each in CONTEXTS if each.name == one.context), CONTEXTS[0] if login else None)
        of_sender = one.finding.check == _OF_SENDER and nodes.isdisjoint(one.nodes)  # of which there is one
        every = of_sender or nodes <= one.nodes or "no job was submitted" in one.finding.found
        alike = not one.finding.between and every and len(nodes) > 1
        for node in sorted(one.nodes) or [""]:
            yield Harm(one.finding, node, context, one.account or "user", alike, one.names)
