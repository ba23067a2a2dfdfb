"""Findings by cause: what one line, command, install or service explains is one finding, with its consequences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from envmgr.audit.hints import Action
from envmgr.nodes.sets import expand, fold
from envmgr.report import Finding
from envmgr.wording import and_more

_NAMED = 8  # places that one finding names
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


@dataclass(frozen=True, slots=True)
class Loose:
    """A finding before it is grouped. `about` is the cause that its check names; `account` is the user of its shell,
    empty if it is about no shell, or those of several.
    """

    finding: AuditFinding
    about: str = ""
    account: str = ""

    @property
    def keys(self) -> frozenset[str]:
        """Return what tells its cause: findings that share a key, on the same nodes, have the same one."""
        return frozenset({*self.about.splitlines()} | {action.key for action in self.finding.actions if action.key})

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(expand(self.finding.nodes or self.finding.between))


def every_finding(findings: Iterable[Caused]) -> Iterator[AuditFinding]:
    """Yield each finding, and then its consequences."""
    for finding in findings:
        yield finding
        yield from finding.consequences


def grouped(loose: Sequence[Loose], causes: Mapping[str, Collection[str]]) -> tuple[Caused, ...]:
    """Return one finding for each cause: causes before what has none, errors first, then by check, place and nodes.

    `causes` maps a check to the checks whose findings can follow from it. A finding without a cause of its own follows
    from one that can cause it, on all its nodes and in the same account's shells; a warning that explains an error
    must name its cause (`about`). A difference between nodes of which nobody knows the right ones follows from a cause
    on some of them.
    """
    groups = _by_key(one for one in loose if one.keys)
    alone: list[Loose] = []
    caused = [(group, tuple(group)) for group in groups]
    for one in loose:
        if not one.keys:
            of = next((group for group, known in caused if any(_causes(each, one, causes) for each in known)), None)
            if of is not None:
                of.append(one)
            else:
                alone.append(one)
    found = [_as_one(group, causes) for group in [*groups, *([one] for one in alone)]]
    return tuple(
        sorted(found, key=lambda f: (_ORDER[f.severity], not f.consequences, f.check, f.where, f.nodes, f.found))
    )


def _by_key(loose: Iterable[Loose]) -> list[list[Loose]]:
    groups: list[list[Loose]] = []
    for one in loose:
        near = [group for group in groups if any(one.keys & other.keys and _meet(one, other) for other in group)]
        groups = [group for group in groups if group not in near]
        groups.append([*(other for group in near for other in group), one])
    return groups


def _meet(one: Loose, other: Loose) -> bool:
    return not one.nodes or not other.nodes or bool(one.nodes & other.nodes)


def _causes(cause: Loose, one: Loose, causes: Mapping[str, Collection[str]]) -> bool:
    return (
        one.finding.check in causes.get(cause.finding.check, ())
        and (
            _ORDER[cause.finding.severity] <= _ORDER[one.finding.severity]
            or (bool(cause.about) and cause.finding.severity != "note")
        )
        and (one.nodes <= cause.nodes or (bool(one.finding.between) and not one.nodes.isdisjoint(cause.nodes)))
        and (not cause.account or cause.account == one.account)
    )


def _as_one(group: Sequence[Loose], causes: Mapping[str, Collection[str]]) -> Caused:
    """Return the finding of a group that says most of its cause, with the others as its consequences."""
    checks = [one.finding.check for one in group]

    def rank(one: Loose) -> tuple[object, ...]:
        acts = any(action.key for action in one.finding.actions)
        own = one.finding.check
        explains = sum(check in causes.get(own, ()) for check in checks if check != own)
        return not acts, not one.keys, _ORDER[one.finding.severity], -explains, -len(one.nodes), len(one.finding.found)

    first = min(group, key=rank)
    like = [one.finding for one in group if _text(one.finding) == _text(first.finding)]
    rest = [one.finding for one in group if _text(one.finding) != _text(first.finding)]
    head = next(joined(like))
    worst = min((finding.severity for finding in [head, *rest]), key=_ORDER.__getitem__)
    actions = dict.fromkeys(action for one in [head, *rest] for action in one.actions if action.key)
    more = [action for action in actions if action not in head.actions and action.do == "delete"]
    named = {f"{action.file}:{action.line}": None for action in more if f"{action.file}:{action.line}" not in head.hint}
    hint = head.hint + "".join(f"; then {line}" for line in [*named][:_NAMED])
    said = {each.name: getattr(head, each.name) for each in fields(head)}
    said |= {"severity": worst, "hint": hint, "actions": (*head.actions, *more)}
    return Caused(**said, cause=_cause(first), consequences=tuple(joined(rest)))


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
