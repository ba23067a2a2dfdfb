"""What nodes say of modules that other tools made, as inventories: how each loads, what it sets, names and brings, and how it starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from envmgr.audit.inventory.facts import NodeInventory
from envmgr.audit.shell.shared_shell import without_host
from envmgr.probe.model import Facts, Fleet

_PART = "site_modules."
_TIMES = re.compile(r"\b1[0-9]{9}\b|\b[0-2]?[0-9]:[0-5][0-9]:[0-5][0-9]\b")
Inventories = list[tuple[NodeInventory, tuple[str, ...]]]


def read_modules(fleet: Fleet) -> Iterator[Inventories]:
    """Yield for each module the inventories of nodes that tried to load it."""
    tried = (f"{_PART}loads.", f"{_PART}failed.")
    names = {fact.split(".", 2)[2] for of in fleet.groups for fact in of.facts if fact.startswith(tried)}
    for name in sorted(names):
        found = [(of.nodes, _of_module(name, of.facts)) for of in fleet.groups]
        yield [
            (_inventory({key: without_host(value, nodes, fleet) for key, value in of.items()}), nodes)
            for nodes, of in found
            if of
        ]


def _inventory(values: Mapping[str, str]) -> NodeInventory:
    looked = frozenset[str]()
    return NodeInventory({("module", key): value for key, value in values.items()}, looked, frozenset(), looked)


def _of_module(name: str, facts: Facts) -> dict[str, str]:
    """Return `NAME what` -> value; nothing if the module was not tried."""
    failed = facts.get(f"{_PART}failed.{name}")
    if f"{_PART}loads.{name}" not in facts and failed is None:
        return {}
    found = {f"{name} load": "loads" if failed is None else f"does not load: {' '.join(failed.split())}"}
    for line in facts.get(f"{_PART}sets.{name}", "").splitlines():
        variable, _, value = line.partition("=")
        found[f"{name} sets {variable}"] = _TIMES.sub("TIME", value)
    for line in facts.get(f"{_PART}has.{name}", "").splitlines():
        state, path = line.split(" ", 1) if line.startswith(("- ", "! ")) else ("", line)
        found[f"{name} names {path}"] = {"-": "not there", "!": "closed", "": "there"}[state]
    for line in facts.get(f"{_PART}lacks.{name}", "").splitlines():
        found[f"{name} lacks {line.split(' ')[0]}"] = line.rpartition(" ")[2]
    return found
