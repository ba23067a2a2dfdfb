"""Context against context: what one kind of shell or job of an account has on a node, and another kind there has not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from envmgr.audit.comparing import compare
from envmgr.audit.model import Evidence
from envmgr.probe.model import Facts, Fleet, ShellAccount, ShellContext
from envmgr.probe.shell import context_key


@dataclass(frozen=True, slots=True)
class Across:
    """On `nodes`, the list of `context` lacks `lacks` of what `usual` has there, and has `also` besides."""

    context: ShellContext
    account: ShellAccount
    usual: ShellContext
    lacks: tuple[str, ...]
    also: tuple[str, ...]
    nodes: tuple[str, ...]


def across(evidence: Evidence, parts: Callable[[Facts, str], list[str] | None]) -> Iterator[Across]:
    """Each context of an account against its login bash, or else against the first that was asked.

    `parts(facts, key)` is a list in a context, whose facts begin with `key`; None where it is not compared. Order is no difference.
    Nodes that differ from other nodes in the list are passed over: that is told already.
    """
    asked: dict[ShellAccount, list[tuple[ShellContext, dict[str, list[str]]]]] = {}
    for context, account, fleet in evidence.contexts():
        asked.setdefault(account, []).append((context, _by_node(context, account, fleet, parts)))
    for account, contexts in asked.items():
        usual, right = next((each for each in contexts if each[0].name == "bash-login"), contexts[0])
        told = _told(right, evidence)
        for context, lists in contexts:
            passed = told | _told(lists, evidence)
            found: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
            for node, own in lists.items():
                wanted = right.get(node, own)
                if node not in passed and set(own) != set(wanted):
                    found.setdefault((_without(wanted, own), _without(own, wanted)), []).append(node)
            for (lacks, also), nodes in found.items():
                yield Across(context, account, usual, lacks, also, tuple(nodes))


def _by_node(
    context: ShellContext, account: ShellAccount, fleet: Fleet, parts: Callable[[Facts, str], list[str] | None]
) -> dict[str, list[str]]:
    key = context_key(context, account)
    lists = ((group, parts(group.facts, key)) for group in fleet.groups)
    return {node: found for group, found in lists if found is not None for node in group.nodes}


def _told(lists: Mapping[str, list[str]], evidence: Evidence) -> frozenset[str]:
    """Nodes that differ from other nodes in this already."""
    values: dict[str, tuple[str, ...]] = {}
    for node, found in lists.items():
        values[":".join(found)] = (*values.get(":".join(found), ()), node)
    compared = compare(values, evidence)
    differ = [node for nodes in (compared.differ or {}).values() for node in nodes]
    return frozenset([*differ, *(node for outlier in compared.outliers for node in outlier.nodes)])


def _without(parts: list[str], others: list[str]) -> tuple[str, ...]:
    return tuple(part for part in parts if part not in others)
