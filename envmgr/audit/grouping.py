"""Findings by cause: what one line, command, install or service explains is one finding, with its consequences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from envmgr.audit.hints import Action
from envmgr.audit.table import CheckTable
from envmgr.nodes.sets import expand, fold
from envmgr.report import Finding
from envmgr.wording import and_more

_NAMED = 8  # places that one finding names
# A path of two folders or more, but for the system's programs; a variable; a library; a module with its version.
_WORD = re.compile(
    r"(?!/(?:usr/)?s?bin/)(?:/[\w.@+-]+){2,}"
    r"|\b(?!MODULEPATH\b)[A-Z][A-Z0-9_]{3,}\b|\blib[\w+-]+\.so\b|[\w.+-]+/\d[\w.+-]*"
)
_TYPED = re.compile(r"`[^`]*[~/][\w.@+-]*/[\w.@+-][^`]*`")  # a command about one file
_AGAIN = "run envmgr node-setup"
_ORDER = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True, slots=True)
class AuditFinding(Finding):
    """A finding of an audit. `actions` are its hint as data."""

    actions: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class Caused(AuditFinding):
    """All findings of one cause: the one that says most of it, with the severity of the worst.

    `cause` is what they come from, where the audit saw that: a line of a file, an install, a mount, a service.
    `consequences` are the other findings. `since` is when an audit saw it first, seconds since the epoch; None if no
    report of an earlier audit is kept.
    """

    cause: str = ""
    since: float | None = None
    consequences: tuple[AuditFinding, ...] = ()


@dataclass(frozen=True)
class Loose:
    """A finding before it is grouped. `about` is the cause that its check names; `account` is the user of its shell,
    empty if it is about no shell, or those of several. `against` are like nodes on which it is as expected.
    """

    finding: AuditFinding
    about: str = ""
    account: str = ""
    against: frozenset[str] = frozenset()

    @cached_property
    def keys(self) -> frozenset[str]:
        """Return what tells its cause: findings that share a key, on the same nodes, have the same one."""
        return frozenset({*self.about.splitlines()} | {action.key for action in self.finding.actions if action.key})

    @cached_property
    def words(self) -> frozenset[str]:
        finding = self.finding
        files = (action.file for action in finding.actions)
        return frozenset(_WORD.findall(" ".join((finding.where, finding.found, self.about, *files))))

    @cached_property
    def edited(self) -> frozenset[str]:
        """Return the nodes of the lines that its hint deletes or adds: jobs inherit those of another host."""
        return frozenset(node for action in self.finding.actions if action.file for node in expand(action.nodes))

    @cached_property
    def nodes(self) -> frozenset[str]:
        return frozenset(expand(self.finding.nodes or self.finding.between))


def as_caused(finding: AuditFinding, **given: Any) -> Caused:
    """Return a finding with what it causes, or other fields that are `given`."""
    return Caused(**{each.name: getattr(finding, each.name) for each in fields(finding)} | given)


def every_finding(findings: Iterable[Caused]) -> Iterator[AuditFinding]:
    """Yield each finding, and then its consequences."""
    for finding in findings:
        yield finding
        yield from finding.consequences


@dataclass(frozen=True, slots=True)
class Links:
    """The findings that can follow from others: `causes` and `explains` of each check's table."""

    causes: Mapping[str, Collection[str]]
    explains: Mapping[str, Mapping[str, Collection[str]]]

    @classmethod
    def of(cls, tables: Iterable[CheckTable]) -> Links:
        known = [*tables]
        return cls({of.check: of.causes for of in known}, {of.check: of.explains for of in known})

    def explained(self, cause: Loose) -> dict[str, str]:
        """Return the checks whose findings follow from this one, whatever they name, with what must be found in them."""
        said = f"{cause.finding.where}: {cause.finding.found}"
        kinds = self.explains.get(cause.finding.check, {})
        found: dict[str, str] = {}
        for check, _, text in (
            n.partition(" ") for pattern, of in kinds.items() if re.search(pattern, said) for n in of
        ):
            found[check] = f"{found[check]}|{text}" if check in found else text
        return found

    def reach(self, one: Finding, checks: Counter[str]) -> int:
        """Return how many findings of these checks its check can cause at all."""
        return sum(checks[check] for check in self.causes.get(one.check, ()))


@dataclass(frozen=True)
class _Cause:
    """Findings of one cause, as what others may follow from."""

    group: Sequence[Loose]
    links: Links

    @cached_property
    def _known(self) -> list[tuple[Loose, Mapping[str, str], Collection[str]]]:
        return [(one, self.links.explained(one), self.links.causes.get(one.finding.check, ())) for one in self.group]

    def has(self, other: Loose) -> bool:
        """Return whether the other follows from these: on their nodes, and in the same account's shells.

        What differs between nodes does not follow from what is alike on them. A difference between nodes of which nobody knows the right ones follows where they are all that have one value.
        """
        check, found, nodes, there = other.finding.check, other.finding.found, other.nodes, set[str]()
        linked = False
        for one, explained, causes in self._known:
            if _is_alike(one, other):
                continue
            same = check in causes and _same(one, other)
            able = one.finding.severity != "note" or other.finding.severity == "note"
            if (same or (able and check in explained and re.search(explained[check], found))) and _same_account(
                one, other
            ):
                if not one.nodes or (same and other.finding.between):
                    return True
                linked = True
                there |= one.nodes
        if other.finding.between:
            return linked and f" on {fold(nodes & there)};" in f"{found};"
        return linked and bool(nodes) and nodes <= there


def grouped(loose: Sequence[Loose], links: Links) -> tuple[Caused, ...]:
    """Return one finding for each cause: errors first, then those with consequences, then those whose checks can cause others.

    A finding that names no step of its own follows from a cause that a table links with it; setting up a node again is
    no such step, as the check `node-setup` says where that is needed. A cause is as severe as the worst that follows.
    """
    units = _met((one for one in loose if one.keys), lambda one, other: bool(one.keys & other.keys))
    said: dict[AuditFinding, list[Loose]] = {}
    for one in (one for one in loose if not one.keys):
        own = replace(one.finding, where="", nodes="", expected="", severity="note")
        said.setdefault(replace(own, found="") if _TYPED.search(own.hint) else own, []).append(one)
    units += [unit for alike in said.values() for unit in _met(alike, lambda one, _: bool(one.finding.hint))]
    able = [_Cause(unit, links) for unit in units]
    at_node: dict[str, set[int]] = {}  # "" for those without nodes
    for at, unit in enumerate(units):
        for node in (node for one in unit for node in one.nodes or ("",)):
            at_node.setdefault(node, set()).add(at)
    causes: dict[int, int] = {}
    for at, unit in enumerate(units):
        if not any(action.key and not action.key.startswith(_AGAIN) for one in unit for action in one.finding.actions):
            one = unit[0]  # a cause is on all its nodes, or on some of those that differ
            there = {"", *(one.nodes if one.finding.between else sorted(one.nodes)[:1])}
            near = sorted(set[int]().union(*(at_node.get(node, ()) for node in there)))
            can = (n for n in near if at not in _way(n, causes) and all(map(able[n].has, unit)))
            if (cause := next(can, None)) is not None:
                causes[at] = cause
    groups: dict[int, list[Loose]] = {at: [] for at in range(len(units)) if at not in causes}
    for at in causes:
        groups[_way(at, causes)[-1]] += units[at]
    found = [_as_one(units[at], rest, links) for at, rest in groups.items()]
    checks = Counter(each.check for each in found)
    count = {each: (not each.consequences, -links.reach(each, checks)) for each in found}
    return tuple(sorted(found, key=lambda f: (_ORDER[f.severity], *count[f], f.check, f.where, f.nodes, f.found)))


def _is_alike(cause: Loose, one: Loose) -> bool:
    """Return whether the cause is the same on nodes between which the other differs."""
    if cause.finding.between:
        return False
    if one.finding.between:
        return not cause.nodes or one.nodes <= cause.nodes
    return bool(one.against) and (not cause.nodes or not one.against.isdisjoint(cause.nodes))


def _same(cause: Loose, one: Loose) -> bool:
    """Return whether the cause names a variable, library or module that the other names, too, or a folder or file of its paths."""
    if not cause.keys or cause.finding.severity == "note":
        return False
    words = one.words
    return any(word in words or any(other.startswith(f"{word}/") for other in words) for word in cause.words)


def _same_account(cause: Loose, one: Loose) -> bool:
    """Return whether it is in shells of the cause's account. What is asked in the user's login shell has neither account nor shell."""
    asked = not one.account and "(root" not in one.finding.where and cause.account != "root"
    return cause.account in ("", one.account) or (asked and "login" in cause.finding.where)


def _way(at: int, causes: Mapping[int, int]) -> list[int]:
    """Return a unit, its cause, the cause of that, and so on."""
    way = [at]
    while way[-1] in causes:
        way.append(causes[way[-1]])
    return way


def _met(loose: Iterable[Loose], alike: Callable[[Loose, Loose], bool]) -> list[list[Loose]]:
    """Return those that are alike, and on some of the same nodes, together."""
    groups: list[list[Loose]] = []
    for one in loose:
        near = [group for group in groups if any(alike(one, other) and _meet(one, other) for other in group)]
        groups = [group for group in groups if group not in near]
        groups.append([*(other for group in near for other in group), one])
    return groups


def _meet(one: Loose, other: Loose) -> bool:
    return not one.nodes or not other.nodes or bool(one.nodes & other.nodes or one.edited & other.edited)


def _as_one(group: Sequence[Loose], following: Sequence[Loose], links: Links) -> Caused:
    """Return the finding of a group that says most of its cause, with the others, and all that follows, as its consequences."""

    def rank(one: Loose) -> tuple[object, ...]:
        acts = any(action.key for action in one.finding.actions)
        own = one.finding
        explains = links.reach(own, Counter(other.finding.check for other in group if other.finding.check != own.check))
        return not acts, not one.keys, _ORDER[one.finding.severity], -explains, -len(one.nodes), len(one.finding.found)

    first = min(group, key=rank)
    like = [one.finding for one in (*group, *following) if _text(one.finding) == _text(first.finding)]
    rest = [one.finding for one in (*group, *following) if _text(one.finding) != _text(first.finding)]
    head = next(joined(like))
    worst = min((finding.severity for finding in [head, *rest]), key=_ORDER.__getitem__)
    actions = dict.fromkeys(action for one in [head, *rest] for action in one.actions if action.key)
    more = [action for action in actions if action not in head.actions and action.do == "delete"]
    named = {f"{action.file}:{action.line}": None for action in more if f"{action.file}:{action.line}" not in head.hint}
    hint = head.hint + "".join(f"; then {line}" for line in [*named][:_NAMED])
    said = {"severity": worst, "hint": hint, "actions": (*head.actions, *more)}
    return as_caused(head, **said, cause=_cause(first), consequences=tuple(joined(rest)))


def _text(finding: AuditFinding) -> AuditFinding:
    return replace(finding, where="")


def _cause(one: Loose) -> str:
    lines = (f"{action.file}:{action.line}" for action in one.finding.actions if action.file)
    return next(lines, one.about.partition("\n")[0])


def joined(findings: Iterable[AuditFinding]) -> Iterator[AuditFinding]:
    """Yield one finding for those that differ only in their place: `bash-login, bash-ssh (root, alice)`."""
    places: dict[AuditFinding, list[str]] = {}
    for finding in findings:
        places.setdefault(_text(finding), []).append(finding.where)
    for finding, where in places.items():
        yield replace(finding, where=joined_places(where))


def joined_places(where: Iterable[str], most: int = 99) -> str:
    """Join the places, at most so many kinds of shells of an account; those of the form `NAME (ACCOUNT)` with the same accounts are put together."""
    accounts: dict[str, list[str]] = {}
    for place in dict.fromkeys(where):
        name, _, account = place.partition(" (")
        accounts.setdefault(name, []).extend([account.rstrip(")")] if account else [])
    names: dict[str, list[str]] = {}
    for name, of_name in accounts.items():
        names.setdefault(", ".join(of_name), []).append(name)
    return "; ".join(f"{and_more(of, most)} ({who})" if who else and_more(of, _NAMED) for who, of in names.items())


_EACH = "@"  # stands for the nodes of the finding


def same_on_nodes(loose: Iterable[Loose]) -> list[Loose]:
    """Return each finding once, with all nodes to which it applies."""
    nodes: dict[Loose, list[str]] = {}
    for one in loose:
        finding = one.finding
        actions = (replace(a, nodes=_EACH) if a.nodes and a.nodes == finding.nodes else a for a in finding.actions)
        bare = replace(one, finding=replace(finding, nodes="", actions=tuple(actions)))
        nodes.setdefault(bare, []).extend(expand(finding.nodes) if finding.nodes else ())
    return [_on(one, fold(of)) for one, of in nodes.items()]


def _on(one: Loose, nodes: str) -> Loose:
    actions = tuple(replace(action, nodes=nodes) if action.nodes == _EACH else action for action in one.finding.actions)
    return replace(one, finding=replace(one.finding, nodes=nodes, actions=actions))
