"""The questions of checks to this host, asked by their `ask_controller`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from envmgr.nodes.sets import NodeSets
from envmgr.nodes.slurm import UNCONFIGURED, node_rows, slurm_here, states_or_reason
from envmgr.system.run import Runner


@dataclass(frozen=True, slots=True)
class SlurmView:
    """Slurm's own view of its nodes. `states` is node -> (state, reason); `broken` says why Slurm could not be asked. `rows`
    is node -> key -> value, of what does not come and go with jobs: see `node_rows`.

    All are empty on a host whose Slurm was never configured.
    """

    states: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    broken: str = ""
    rows: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


class Controller:
    """Answers for this host.

    `jobs` says whether the audit sends jobs. All questions end shortly after `end`, by time.monotonic().
    """

    def __init__(self, runner: Runner, sets: NodeSets, *, jobs: bool, end: float) -> None:
        self.runner, self.sets = runner, sets
        self._jobs, self._end = jobs, end

    @property
    def left(self) -> float:
        """Return the seconds that a question may take."""
        return max(2.0, self._end - time.monotonic())

    def slurm(self) -> SlurmView:
        """Return Slurm's view of its nodes."""
        if not self._jobs and not slurm_here():
            return SlurmView()
        states, broken = states_or_reason(self.runner, self.left)
        if broken:
            return SlurmView(states, "" if broken == UNCONFIGURED and not self._jobs else broken)
        return SlurmView(states, rows=node_rows(self.runner, timeout=self.left))
