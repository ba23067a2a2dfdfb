"""The cause of a finding: the line of a start-up file that set a variable. It is asked for after the checks have
judged.

A check yields a hint that names the line (`Traced`). The engine asks for the lines of all findings in one round, and
fills them in. One shell is traced for each group of nodes that differ. Source: bash(1), PS4, BASH_XTRACEFD, INVOCATION;
tried on bash 5.2, which takes no PS4 from the environment for root.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from envmgr.audit.table import Words, fill
from envmgr.modules.nodesetup import CSH_PROFILE, HOME, PROFILE
from envmgr.nodes.sets import fold
from envmgr.probe.model import Fleet, ProbePart, ShellAccount, ShellContext
from envmgr.system.shelltext import UNTRACED_END, assign, quote, script_text, untraced

_OURS = (f"{HOME}/", PROFILE, CSH_PROFILE)
_PARTS = 8  # so many parts of a list are traced at most
_PINNED, _THERE, _LIST = ":pinned", ":there", ":list"
_MOST_NODES = 12  # that are asked; each represents all with the same answers
# Of a context of ssh: how its shell is traced, where that is not the context's own name.
_HOW = {"bash-login": "login", "bash-ssh": "ssh", "bash-interactive": "interactive", "bash-job": "job"}


@dataclass(frozen=True, slots=True)
class TraceQuestion:
    """A question: which line sets the variables, or makes the aliases, `names` in this shell on `node`?

    `NAME~PART` asks which line brings PART into a list.
    """

    node: str
    context: ShellContext
    account: ShellAccount
    names: tuple[str, ...]


def is_ours(place: str) -> bool:
    """Return whether a place is a file of node-setup."""
    return place.startswith(_OURS)


def places_in_words(places: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """Return `FILE:LINE sets it on NODES`, each place once; without those of node-setup's files."""
    found: dict[str, list[str]] = {}
    for place, nodes in places:
        if place and not is_ours(place):
            found.setdefault(place, []).extend(nodes)
    return [f"{place} sets it on {fold(nodes)}" for place, nodes in found.items()]


def part_of(name: str, part: str) -> str:
    """Return the name for the question of what brings `part` into the list `name`; only `name` if a word cannot hold
    `part`.
    """
    return f"{name}~{part}" if part and not re.search(r"[\s=|*?\[]", part) else name


def parts_of(name: str, parts: Sequence[str]) -> tuple[str, ...]:
    """Return the names for the question of what brings the first of `parts` into the list `name`."""
    return tuple(part_of(name, part) for part in parts[:_PARTS])


@dataclass(frozen=True, slots=True)
class Traces:
    """The results of the traces: (node, context's name, account, name) -> `FILE:LINE`."""

    places: Mapping[tuple[str, str, str, str], str]

    def place(self, nodes: Iterable[str], context: ShellContext, account: ShellAccount, name: str) -> str:
        """Return where it is set on the first of `nodes` that was asked; empty if no trace shows it.

        For a job, this is where a login shell sets it that looks like a job's on that node, or else one whose
        environment jobs inherit.
        """
        shells = [traced_context(context)] if context.way == "ssh" else [traced_context(context), "bash-login"]
        found = (self.places.get((node, shell, account, name), "") for shell in shells for node in nodes)
        return next((place for place in found if place), "")

    def culprit(self, nodes: Sequence[str], context: ShellContext, account: ShellAccount, name: str) -> str:
        """Return `place` if that shell read node-setup's files and something else set the variable after them; else
        empty.
        """
        place = self.place(nodes, context, account, name)
        pinned = self.place(nodes, context, account, _PINNED)
        return place if pinned and not is_ours(place) else ""

    def list_file(self, nodes: Iterable[str], context: ShellContext, account: ShellAccount) -> tuple[str, str]:
        """Return Lmod's own start-up file, and the list from which it made MODULEPATH in that shell; empty if no trace
        shows it.
        """
        file, _, source = self.place(nodes, context, account, _LIST).partition(" ")
        return file, source

    def before_ours(self, nodes: Sequence[str], context: ShellContext, account: ShellAccount) -> str:
        """Return, in words, what ends before that shell reads node-setup's files; empty if it reads them or they do not
        exist.
        """
        if (
            context.way != "ssh"
            or self.place(nodes, context, account, _PINNED)
            or not self.place(nodes, context, account, _THERE)
        ):
            return ""
        place = self.place(nodes, context, account, ":left")
        return f"{place} ends a start-up file" if place else "a start-up file ends, or fails,"


Trace = Callable[[Sequence[TraceQuestion]], Traces]
"""A function that asks nodes for the responsible lines."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A hint that names the responsible line. `words` makes its text once the `questions` are answered."""

    questions: tuple[TraceQuestion, ...]
    words: Callable[[Traces], str] = field(compare=False)


def set_by(
    nodes: Sequence[str], context: ShellContext, account: ShellAccount, row: Words, given: Mapping[str, object]
) -> str | Traced:
    """Return the hint of a row with the `place` that sets one of its causes, or its `unplaced` if no trace shows one."""
    names, unknown = tuple(fill(row.cause, given).split()), fill(row.unplaced, given)
    if not names:
        return unknown

    def words(traces: Traces) -> str:
        for name in names:
            place = traces.place(nodes, context, account, name)
            if place and not (row.foreign and is_ours(place)):
                return fill(row.hint, {**given, "place": place, "cause": name})
        return unknown

    return Traced((TraceQuestion(nodes[0], context, account, names),), words)


def set_on(
    values: Mapping[str, Sequence[str]],
    context: ShellContext,
    account: ShellAccount,
    row: Words,
    given: Mapping[str, object],
) -> Traced:
    """Return the hint of a row, then `FILE:LINE sets it on NODES; …` for the nodes of each value, or its `unplaced`."""
    name = fill(row.cause, given)

    def words(traces: Traces) -> str:
        places = ((traces.place(nodes, context, account, name), nodes) for nodes in values.values())
        return fill(row.hint, given) + ("; ".join(places_in_words(places)) or fill(row.unplaced, given))

    return Traced(tuple(TraceQuestion(nodes[0], context, account, (name,)) for nodes in values.values()), words)


def traced_context(context: ShellContext) -> str:
    """Return the context whose shell is traced for this one."""
    if context.way == "ssh":
        return context.name
    return {"bash-interactive": "bash-interactive", "bash-login": "bash-job"}.get(context.shell, "bash-login")


def nodes_to_trace(questions: Sequence[TraceQuestion]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(question.node for question in questions))[:_MOST_NODES]


def trace_part(questions: Sequence[TraceQuestion], users: Mapping[ShellAccount, str]) -> ProbePart:
    """Return all questions in one script, which is the same for every node."""
    names = sorted({name for question in questions for name in question.names})
    shells = dict.fromkeys((traced_context(question.context), question.account) for question in questions)
    # Jobs inherit the environment of the login shell that submits them.
    shells |= dict.fromkeys(
        ("bash-login", question.account) for question in questions if question.context.way == "slurm"
    )
    calls = "".join(
        f"trace {quote(f'{context}.{account}')} {quote(users[account])} {_HOW.get(context, context)}\n"
        for context, account in shells
    )
    given = assign(trace_names=" ".join(names), trace_pin=f"{HOME}/", trace_profile=PROFILE, trace_home="")
    given += assign(trace_end=f"set +x\n{untraced()}{UNTRACED_END}")
    return ProbePart("trace", {"prefix": given + script_text(__file__, "csh.sh") + script_text(__file__, "sh") + calls})


def read_traces(fleet: Fleet) -> Traces:
    places: dict[tuple[str, str, str, str], str] = {}
    for group in fleet.groups:
        for key, place in group.facts.items():
            # The name comes last, because a part of a list may contain dots.
            words = key.split(".", 3)
            if words[0] == "trace" and len(words) == 4 and words[1] != "looked":
                places |= {(node, words[1], words[2], words[3]): place for node in group.nodes}
    return Traces(places)
