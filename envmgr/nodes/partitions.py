"""How Slurm is asked for just the nodes of a group: its partitions, and what is left out of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from envmgr.errors import CommandError, EnvmgrError
from envmgr.nodes.groups import Partitions
from envmgr.nodes.sets import expand, fold
from envmgr.nodes.slurm import UNCONFIGURED, slurm_here, states_or_reason
from envmgr.nodes.tools import tool, tool_env
from envmgr.system.run import Runner

_ASK = 10.0  # seconds that a command of Slurm's may take


@dataclass(frozen=True, slots=True)
class SlurmNodes:
    """What Slurm knows: its `nodes`, `partitions` with theirs, and whether it keeps accounts of jobs that have ended."""

    nodes: frozenset[str]
    partitions: Mapping[str, frozenset[str]]
    accounting: bool


NO_SLURM = SlurmNodes(frozenset(), {}, accounting=False)


def ask_slurm(runner: Runner) -> SlurmNodes:
    """What Slurm knows; `NO_SLURM` where this host has none, or its commands and no configuration.

    Raises EnvmgrError `groups-unreadable` where Slurm is there and does not answer.
    """
    if not slurm_here():
        return NO_SLURM
    states, broken = states_or_reason(runner, _ASK)
    if broken == UNCONFIGURED:
        return NO_SLURM
    if broken:
        raise EnvmgrError("groups-unreadable", "`sinfo` does not say which nodes there are", context=broken)
    found = {name: frozenset(expand(nodes)) for name, nodes in Partitions(runner, _ASK).groups().items()}
    return SlurmNodes(frozenset(states), found, _keeps_accounts(runner))


def _keeps_accounts(runner: Runner) -> bool:
    try:
        told = runner.run([tool("scontrol"), "show", "config"], env=tool_env(), timeout=_ASK).stdout
    except CommandError:
        return False
    lines = [line.partition("=") for line in told.splitlines()]
    kind = next((value.strip() for name, _, value in lines if name.strip() == "AccountingStorageType"), "")
    return kind.startswith("accounting_storage/") and kind != "accounting_storage/none"


def access_options(
    nodes: Sequence[str], slurm: SlurmNodes, *, partition: str | None = None, given: Iterable[str] = ()
) -> tuple[str, ...]:
    """sbatch's options for a job on any of `nodes`, which Slurm knows, and on no other.

    `partition` is the group's own, where it is one of Slurm's; else it is the smallest that has all nodes, or all that have some.
    `given` are options of the site, which win.
    """
    wanted, options = frozenset(nodes), tuple(given)
    named = next((option.partition("=")[2] for option in options if option.startswith("--partition=")), partition)
    chosen = named.split(",") if named else _having(wanted, slurm.partitions)
    others = frozenset[str]().union(*(slurm.partitions.get(name, frozenset()) for name in chosen)) - wanted
    found = [] if any(option.startswith("--partition=") for option in options) else [f"--partition={','.join(chosen)}"]
    found += [f"--exclude={fold(others)}"] if others else []
    return (*options, *found)


def _having(wanted: frozenset[str], partitions: Mapping[str, frozenset[str]]) -> list[str]:
    whole = [(len(nodes), name) for name, nodes in partitions.items() if wanted <= nodes]
    return [min(whole)[1]] if whole else sorted(name for name, nodes in partitions.items() if wanted & nodes)
