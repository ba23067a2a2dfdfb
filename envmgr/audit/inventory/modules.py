"""Modules that other tools made, as inventories: how each loads, what it sets, names and brings, and how it starts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from envmgr.audit.inventory.facts import NodeInventory
from envmgr.audit.shell.shared_shell import without_host
from envmgr.probe.model import Facts, Fleet, grouped

_PART = "site_modules."
_TIMES = re.compile(r"\b1[0-9]{9}\b|\b[0-2]?[0-9]:[0-5][0-9]:[0-5][0-9]\b")
Inventories = list[tuple[NodeInventory, tuple[str, ...]]]


def read_modules(fleet: Fleet) -> Iterator[Inventories]:
    """Yield for each module the inventories of nodes that tried to load it."""
    tried = (f"{_PART}loads.", f"{_PART}failed.")
    names = {fact.split(".", 2)[2] for of in fleet.groups for fact in of.facts if fact.startswith(tried)}
    for name in sorted(names):
        found = [(of, _told(name, of.facts, partial(without_host, nodes=of.nodes, fleet=fleet))) for of in fleet.groups]
        told = grouped(item for _, values in found for item in values.items())
        yield [(_inventory(name, values, told, of.facts), of.nodes) for of, values in found if values]


def _told(name: str, facts: Facts, nameless: Callable[[str], str]) -> dict[str, str]:
    """Return `NAME what` -> value; nothing if the module was not tried."""
    failed = facts.get(f"{_PART}failed.{name}")
    if failed is not None:
        return {f"{name} load": nameless(f"does not load: {' '.join(failed.split())}")}
    if f"{_PART}loads.{name}" not in facts:
        return {}
    found = {f"{name} load": "loads"}
    for line in nameless(facts.get(f"{_PART}sets.{name}", "")).splitlines():
        variable, _, value = line.partition("=")
        if variable == "LOADEDMODULES":  # also those that it loads
            found[f"{name} load"] = f"loads {value.replace(':', ' ')}"
        else:
            found[f"{name} sets {variable}"] = _TIMES.sub("TIME", value)
    for line in nameless(facts.get(f"{_PART}has.{name}", "")).splitlines():
        state, _, path = line.partition(" ") if line[:2] in ("- ", "! ", "= ") else ("", "", line)
        if state == "=":  # very many
            found[f"{name} brings"] = path
        else:
            found[f"{name} names {path}"] = {"-": "not there", "!": "closed", "": "there"}[state]
    return found


def _inventory(name: str, own: Mapping[str, str], told: Mapping[str, list[str]], facts: Facts) -> NodeInventory:
    """Return what a node says of a module, and what it means that it does not say what other nodes say.

    Nothing, if the module does not load there, or if what it brings was not looked at to the end.
    """
    values, unread = dict(own), set[str]()
    for key in told.keys() - own.keys():
        what = key.removeprefix(f"{name} ").split(" ")[0]
        if not own[f"{name} load"].startswith("loads") or (what != "sets" and f"{_PART}looked.{name}" not in facts):
            unread.add(key)
        elif what == "names":  # programs that are there are reported, and folders that are not
            values[key] = "not there" if "there" in told[key] else "there"
        else:
            values[key] = "nothing"
    at = frozenset(("module", key) for key in unread)
    return NodeInventory({("module", key): value for key, value in values.items()}, unread=at)
