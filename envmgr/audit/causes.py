"""The cause of a finding: the line of a start-up file that set a variable. It is asked for after the checks have
judged.

A check yields a hint that names the line (`Traced`). The engine asks for the lines of all findings in one round, and
fills them in. One shell is traced for each group of nodes that differ. Source: bash(1), PS4, BASH_XTRACEFD, INVOCATION;
tried on bash 5.2, which takes no PS4 from the environment for root.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envmgr.audit.hints import Hint, LinePlace, add, delete, hint_of, is_vendors, look, of_programs
from envmgr.audit.second_look import traced_shell_text
from envmgr.audit.table import Steps, Words, fill
from envmgr.modules.node_paths import CSH_PROFILE, HOME, PROFILE
from envmgr.nodes.sets import fold
from envmgr.probe.model import Fleet, ProbePart, ShellAccount, ShellContext
from envmgr.system.shelltext import UNTRACED_END, assign, quote, script_text, untraced

_OURS = (f"{HOME}/", PROFILE, CSH_PROFILE)
_PARTS = 8  # so many parts of a list are traced at most
_PINNED, _THERE, _LIST = ":pinned", ":there", ":list"
_FOLDER = "/etc/profile.d"
_CUT = 400  # characters that a trace tells of a line
_COPIES = 4  # nodes to which one hint copies a file
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


def is_ours(place: LinePlace | None) -> bool:
    """Return whether a place is in a file of node-setup."""
    return place is not None and place.file.startswith(_OURS)


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
    """The results of the traces: (node, context's name, account, name) -> `FILE:LINE TEXT`, or `FILE:LINE,STANDS TEXT`.

    `NAME<` is the line that would set it without that file. `senders` are the hosts whose shells jobs inherit, `profiles`
    the names of a node's files in /etc/profile.d. `files` are the contents of files that checks compared, each with the nodes
    that have it.
    """

    places: Mapping[tuple[str, str, str, str], str]
    senders: tuple[str, ...] = ()
    profiles: Mapping[str, frozenset[str]] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)

    def place(self, nodes: Iterable[str], context: ShellContext, account: ShellAccount, name: str) -> LinePlace | None:
        """Return the line that sets it on the first of `nodes` that was asked; None if no trace shows one.

        For a job, this is where a login shell sets it that looks like a job's on that node, or else one whose
        environment jobs inherit.
        """
        return next(self._places(nodes, context, account, name), None)

    def _places(
        self, nodes: Iterable[str], context: ShellContext, account: ShellAccount, name: str
    ) -> Iterator[LinePlace]:
        for key in self._keys(nodes, context, account, name):
            if found := self.places.get(key):
                yield self._place(key[0], found)

    def _place(self, node: str, found: str) -> LinePlace:
        where, _, text = found.partition(" ")
        file, _, line = where.rpartition(":")
        line, _, stands = line.partition(",")
        contents = self.files.get(file, {}).values()
        unlike = fold(other for nodes in contents if node not in nodes for other in nodes)
        known = any(node in nodes for nodes in contents)
        return LinePlace(
            node, file, int(line) if line.isdecimal() else 0, text.strip(), stands or "alone", unlike if known else ""
        )

    def _keys(
        self, nodes: Iterable[str], context: ShellContext, account: ShellAccount, name: str
    ) -> Iterator[tuple[str, str, str, str]]:
        own = [(node, traced_context(context)) for node in nodes]
        if context.way != "ssh":
            senders = self.senders if context.export == "ALL" else ()
            own = [at for at in own if at[1] != "bash-login" or not senders]
            own += [(node, "bash-login") for node in (senders or nodes)]
        return ((node, shell, account, name) for node, shell in own)

    def _has(self, nodes: Iterable[str], context: ShellContext, account: ShellAccount, name: str) -> bool:
        return any(self.places.get(key) for key in self._keys(nodes, context, account, name))

    def foreign(
        self, nodes: Iterable[str], context: ShellContext, account: ShellAccount, name: str
    ) -> LinePlace | None:
        """Return the first such line that is in no file of node-setup or of programs; for PATH, before which node-setup only puts a
        folder, the line that holds without that in the first shell that shows one.
        """
        keys = [key for key in self._keys(nodes, context, account, name) if self.places.get(key)]
        if name == "PATH":
            keys = [each for key in keys[:1] for each in (key, (*key[:3], f"{name}<")) if self.places.get(each)]
        places = (self._place(key[0], self.places[key]) for key in keys)
        return next((place for place in places if not is_ours(place) and not of_programs(place)), None)

    def culprit(
        self, nodes: Sequence[str], context: ShellContext, account: ShellAccount, name: str
    ) -> LinePlace | None:
        """Return `foreign` if that shell read node-setup's files before it; else None."""
        pinned = self._has(nodes, context, account, _PINNED)
        return self.foreign(nodes, context, account, name) if pinned else None

    def list_file(self, nodes: Iterable[str], context: ShellContext, account: ShellAccount) -> tuple[str, str]:
        """Return Lmod's own start-up file, and the list from which it made MODULEPATH in that shell; empty if no trace
        shows it.
        """
        keys = self._keys(nodes, context, account, _LIST)
        file, _, source = next((self.places[key] for key in keys if key in self.places), "").partition(" ")
        return file, source

    def before_ours(
        self, nodes: Sequence[str], context: ShellContext, account: ShellAccount
    ) -> tuple[LinePlace | None, bool]:
        """Return whether a start-up file ends before that shell reads node-setup's, which exist; and its line, if known."""
        if (
            context.way != "ssh"
            or self._has(nodes, context, account, _PINNED)
            or not self._has(nodes, context, account, _THERE)
        ):
            return None, False
        return self.place(nodes, context, account, ":left"), True


Trace = Callable[[Sequence[TraceQuestion]], Traces]
"""A function that asks nodes for the responsible lines."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A hint that names the responsible line. `hint` makes it once the `questions` are answered."""

    questions: tuple[TraceQuestion, ...]
    hint: Callable[[Traces], Hint] = field(compare=False)


def set_by(
    nodes: Sequence[str], context: ShellContext, account: ShellAccount, row: Words, given: Mapping[str, object]
) -> Hint | Traced:
    """Return the hint of a row with the `place` that sets one of its causes, or its `unplaced` if no trace shows one.

    What `+` joins to a cause goes with it, where the same file has it.
    """
    causes = [cause.partition("+")[::2] for cause in row.cause.split()]
    names = [(name, with_it) for cause, with_it in causes for name in fill(cause, given).split()]
    unknown = hint_of(row.unplaced.filled(given), nodes)
    if not names:
        return unknown

    def hint(traces: Traces) -> Hint:
        for name, with_it in names:
            if place := traces.foreign(nodes, context, account, name):
                of_line = {**given, "place": place.seen_from(nodes), "cause": name}
                made = hint_of(row.hint.filled(of_line), nodes, place)
                also = traces.foreign(nodes, context, account, with_it) if with_it else None
                if row.hint.delete and also and also.file == place.file and also != place and not is_vendors(place):
                    made = Hint(f"{made.text}; then {also}", (*made.actions, *delete(also, nodes, "").actions))
                return made if row.hint.delete else replace(made, about=f"file {place.file}")
        return unknown

    asked = tuple(part for pair in names for part in pair if part)
    return Traced((TraceQuestion(nodes[0], context, account, asked),), hint)


def set_on(
    values: Sequence[Sequence[str]],
    context: ShellContext,
    account: ShellAccount,
    row: Words,
    given: Mapping[str, object],
    *,
    known: bool = True,
) -> Traced:
    """Return the hint of a row that has another value on each of these groups of nodes: which line sets it where.

    The first group is to have the value of the second. If it is not `known` which of them are right, nothing is to be done.
    """
    name = fill(row.cause, given)

    def hint(traces: Traces) -> Hint:
        line = traces.foreign if name == "PATH" else traces.place
        lines = [(line(of, context, account, name), of) for of in values]
        below = traces.place(values[0], context, account, f"{name}<")
        first = row.hint.filled(given).look
        unplaced = first + row.unplaced.filled(given).look
        found = line_of(lines, unplaced, name, traces.profiles, below, known=known)
        return found if found.text == unplaced else replace(found, text=first + found.text)

    return Traced(tuple(TraceQuestion(of[0], context, account, (name,)) for of in values if of), hint)


_Lines = tuple[LinePlace | None, Sequence[str]]  # the line that sets it on these nodes


def line_of(
    lines: Sequence[_Lines],
    unplaced: str,
    name: str,
    profiles: Mapping[str, frozenset[str]],
    below: LinePlace | None = None,
    *,
    known: bool = True,
    is_list: bool = False,
) -> Hint:
    """Return the hint for nodes that are not as others, from the lines that set `name`, or its parts, on both.

    A line that only these nodes have is deleted, if what is `below` it is then right; another value gets that of the
    others; what these nodes lack is brought there, with its file. Node-setup's own files are named nowhere: what they
    lack is set up again. If it is not `known` who is right, there may be more groups of nodes, and nothing is to be done.
    """
    if not known:
        return _lines_alone(lines, unplaced)
    (own, odd), (usual, others) = lines
    on_odd, on_others = f"sets it on {fold(odd)}", f"sets it on {fold(others)}"
    foreign = None if is_ours(usual) else usual
    if own is None and foreign is None and usual is not None:
        return hint_of(_again(odd), odd)
    if own is foreign is None or is_ours(own) or _is_same(own, usual):
        return hint_of(unplaced, odd)
    brought = _brought(foreign, odd, others, name, profiles) if foreign is not None else Hint()
    if own is None:
        return brought
    by_others = f"{foreign} {on_others}" if foreign else "" if usual or not others else f"no start-up file {on_others}"
    away = hint_of(Steps(delete=str(own), because=on_odd, look=by_others), odd, own)
    if foreign is None or is_vendors(own) or _is_same(below, foreign):
        return away
    if own.file == foreign.file and _other_value(own, foreign, name):
        put = f"put `{foreign.text}` in the place of that line, as on {fold(others)}"
        return delete(own, odd, Steps(delete=str(own), because=on_odd, away=put).text, foreign.text)
    if own.file != foreign.file and any(action.do != "look" for action in brought.actions):
        first = hint_of(Steps(delete=str(own), because=on_odd), odd, own)
        return Hint(f"{first.text}; then {brought.text}", (*first.actions, *brought.actions))
    if is_list:
        return away
    return replace(look(f"{own} {on_odd}, {by_others}: let {fold(odd)} have the same"), about=f"file {own.file}")


def _again(nodes: Sequence[str]) -> Steps:
    return Steps(run=f"envmgr node-setup --apply --nodes {fold(nodes)}", at="here")


def _lines_alone(lines: Sequence[_Lines], unplaced: str) -> Hint:
    """Return the hint for nodes of which nobody knows the right ones: the line of each value, with its own nodes."""
    foreign = [(at, of) for at, of in lines if at is not None and not is_ours(at)]
    lacks = [node for at, of in lines if at is None for node in of]
    if not foreign and lacks and len(lacks) < sum(len(of) for _, of in lines):
        return look(_again(lacks).text)
    if not foreign or all(_is_same(foreign[0][0], at) for at, _ in lines):
        return look(unplaced)
    said = [f"{at} sets it on {fold(of)}" for at, of in foreign]
    said += [f"no start-up file sets it on {fold(lacks)}"] if lacks else []
    return replace(look("; ".join(said)), about=f"file {foreign[0][0].file}")


def _is_same(own: LinePlace | None, usual: LinePlace | None) -> bool:
    if own is None or usual is None:
        return False
    return (own.file, own.text) == (usual.file, usual.text) and bool(own.text or own.line == usual.line)


def _brought(
    usual: LinePlace, odd: Sequence[str], others: Sequence[str], name: str, profiles: Mapping[str, frozenset[str]]
) -> Hint:
    """Return the hint for nodes that lack a line: its whole file, if they lack that too, or a line that means the same
    by itself.
    """
    said = f"{usual} sets it on {fold(others)}"
    folder, _, file = usual.file.rpartition("/")
    plain = usual.file.startswith("/etc/") and ".." not in folder.split("/")  # a user's shell may say anything
    files = profiles.get(odd[0]) if folder == _FOLDER else frozenset([file]) if plain else None
    if files is not None and file not in files:
        said += f"; {fold(odd)} has no such file"
        copies = (f"scp -3p {usual.node}:{quote(usual.file)} {node}:{quote(usual.file)}" for node in odd[:_COPIES])
        steps = Steps(run=" && ".join(copies), at="here", look=said)
        made = hint_of(steps if len(odd) <= _COPIES else f"copy it there: {said}", odd)
        return replace(made, about=f"file {usual.file}")
    said += f"; no start-up file sets it on {fold(odd)}"
    if files is not None and usual.stands == "alone" and _variables(usual.text) <= {name, "HOME"} and usual.text:
        return add(usual, odd, f"{said}: add that line there")
    return replace(look(f"{said}: compare that file"), about=f"file {usual.file}")


def _variables(text: str) -> set[str]:
    """Return the variables that a line reads; a name that none has, where it is not one plain command."""
    if len(text) >= _CUT or re.search(r"[;&|<>()`\\]", text):
        return {""}
    return set(re.findall(r"\$\{?(\w+)", text))


def _other_value(own: LinePlace, usual: LinePlace, name: str) -> bool:
    """Return whether two lines differ only in one value, so that one can take the place of the other."""
    reads, had = _variables(usual.text), _variables(own.text)
    if own.stands != usual.stands or "" in reads | had or not reads <= had | {"HOME"}:
        return False
    if name in reads and own.line != usual.line:
        return False
    try:
        words = [shlex.split(place.text, comments=True) for place in (own, usual)]
    except ValueError:
        return False
    keys = [[word.partition("=")[0] for word in of] for of in words]
    differ = [at for at, pair in enumerate(zip(*words, strict=False)) if pair[0] != pair[1]]
    return len(words[0]) == len(words[1]) and len(differ) == 1 and (keys[0] == keys[1] or differ[0] > 0)


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
    calls += f"put trace.profiles \"$(ls {_FOLDER} | tr '\\n' ' ')\"\n"
    texts = [traced_shell_text(), script_text(__file__, "csh.sh"), script_text(__file__, "sh")]
    return ProbePart("trace", {"prefix": given + "".join(texts) + calls})


def read_traces(fleet: Fleet) -> Traces:
    places: dict[tuple[str, str, str, str], str] = {}
    profiles: dict[str, frozenset[str]] = {}
    for group in fleet.groups:
        if (names := group.facts.get("trace.profiles")) is not None:
            profiles |= dict.fromkeys(group.nodes, frozenset(names.split()))
        for key, place in group.facts.items():
            # The name comes last, because a part of a list may contain dots.
            words = key.split(".", 3)
            if words[0] == "trace" and len(words) == 4 and words[1] != "looked":
                places |= {(node, words[1], words[2], words[3]): place for node in group.nodes}
    return Traces(places, profiles=profiles)
