"""The findings of an audit, and what they are before they are joined: one for each cause, with what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal

from envmgr.audit.hints import Action
from envmgr.nodes.sets import expand, fold
from envmgr.probe.model import ShellAccount, grouped
from envmgr.report import Finding
from envmgr.wording import and_more

_NAMED = 8  # places that one finding names


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
    """A finding before it is joined. `context` and `account` name its shell, and are empty if it is about no shell, or several;
    `names` are the variables, or commands as `:umask`, that a line of a start-up file may have set.
    """

    finding: AuditFinding
    context: str = ""
    account: ShellAccount | Literal[""] = ""
    names: tuple[str, ...] = ()

    @cached_property
    def nodes(self) -> frozenset[str]:
        return frozenset(expand(self.finding.nodes or self.finding.between))


def as_caused(finding: AuditFinding, **given: Any) -> Caused:
    """Return a finding with what it causes, or other fields that are `given`."""
    return Caused(**{each.name: getattr(finding, each.name) for each in fields(finding)} | given)


def joined(findings: Iterable[AuditFinding]) -> Iterator[AuditFinding]:
    """Yield one finding for those that differ only in their place: `bash-login, bash-ssh (root, alice)`."""
    for finding, where in grouped((replace(each, where=""), each.where) for each in findings).items():
        yield replace(finding, where=_joined_places(where))


def _joined_places(where: Iterable[str]) -> str:
    """Join the places; those of the form `NAME (ACCOUNT)` with the same accounts are put together."""
    accounts = grouped(place.partition(" (")[::2] for place in dict.fromkeys(where))
    names = grouped((", ".join(who.rstrip(")") for who in of if who), name) for name, of in accounts.items())
    return "; ".join(f"{', '.join(of)} ({who})" if who else and_more(of, _NAMED) for who, of in names.items())


def same_on_nodes(loose: Iterable[Loose]) -> Iterator[Loose]:
    """Yield each finding once, with all nodes to which it applies; the steps of its hint on nodes are for all of these."""
    bare_ones = ((replace(one, finding=replace(one.finding, nodes="", actions=())), one.finding) for one in loose)
    for bare, of in grouped(bare_ones).items():
        nodes = fold(node for finding in of if finding.nodes for node in expand(finding.nodes))
        actions = tuple(replace(each, nodes=nodes) if each.nodes else each for each in of[0].actions)
        yield replace(bare, finding=replace(bare.finding, nodes=nodes, actions=actions))
