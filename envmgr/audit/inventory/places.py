"""The places that have an inventory: the nodes themselves, each of their shells, the modules that were tried, and Slurm's rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from envmgr.audit.inventory.facts import NodeInventory, Place, read_inventory
from envmgr.audit.inventory.kinds import Scope
from envmgr.audit.inventory.modules import read_modules
from envmgr.audit.model import Evidence
from envmgr.nodes.slurm import slurm_names
from envmgr.probe.model import NO_FLEET, Group

_SLURM = "slurm"
# A job may have mounts and folders of its own.
_IN_JOBS = ("account", "daemon", "file", "lib", "limit", "link", "prog", "tree")


def places_of(evidence: Evidence) -> tuple[Place, ...]:
    """Return all places, read from what nodes and this host's Slurm answered."""
    here = evidence.here if "ssh" in evidence.ways else NO_FLEET  # jobs cannot look at all that root can
    nodes = _read("nodes", "", "node", (*evidence.fleet.groups, *here.groups))
    in_job = _read("", "", "node", evidence.in_job.groups).only(_IN_JOBS)
    found = [replace(nodes, told=(*nodes.told, *in_job.told))]
    found += [_looked_into(_read(f"modules ({evidence.plan.user})", "", "login", evidence.shells.groups))]
    found += [_read(shell.where, shell.key, "shell", shell.fleet.groups) for shell in evidence.each_shell()]
    found += [Place("", "", told) for told in read_modules(evidence.shells)]
    return (*found, Place("", "", _by_slurm(evidence)))


def home_of(places: Iterable[Place], user: str) -> str:
    """Return the home of the user, as a node tells it."""
    values = (inventory.values.get(("account", user), "") for place in places for inventory, _ in place.told)
    return next((home for value in values for home in value.split(" ")[1:2]), "~")


def _read(name: str, where: str, scope: Scope, groups: Sequence[Group]) -> Place:
    return Place(name, where, [(read_inventory(of.facts, where, scope), of.nodes) for of in groups])


def _looked_into(place: Place) -> Place:
    """Return the place of modulefiles: nothing is known of a folder that a node's MODULEPATH does not have."""
    values = {at: value for inventory, _ in place.told for at, value in inventory.values.items()}
    folders = [at for at in values if at[1].endswith("/")]
    told = []
    for inventory, nodes in place.told:
        other = [folder for kind, folder in folders if (kind, folder) not in inventory.values]
        unread = [at for at, value in values.items() if any(at[1].startswith(of) or f": {of}" in value for of in other)]
        own = {at: value for at, value in inventory.values.items() if at not in folders}
        told.append((replace(inventory, values=own, unread=inventory.unread.union(unread)), nodes))
    return replace(place, told=told)


def _by_slurm(evidence: Evidence) -> list[tuple[NodeInventory, tuple[str, ...]]]:
    """Return what Slurm says of each node that it knows. It has no version of a node that never came up."""
    rows, may_lack = evidence.slurm.rows, {(_SLURM, "Version")}
    names = slurm_names(rows, evidence.nodes).items()
    values = {node: {(_SLURM, key): value for key, value in rows[name].items()} for node, name in names}
    return [(NodeInventory(of, unread=frozenset(may_lack - of.keys())), (node,)) for node, of in values.items()]
