"""The questions to this host: those of checks (`ask_controller`), and the addresses of the nodes' names."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from envmgr.nodes import UNCONFIGURED, NodeSets, slurm_here, states_or_reason
from envmgr.system.run import Runner, run_detached
from envmgr.system.scratch import scratch_folder
from envmgr.system.shelltext import script_text


@dataclass(frozen=True, slots=True)
class SlurmView:
    """Slurm's own account of its nodes. `states` is node -> (state, reason); `broken` says why it could not be asked.

    Both are empty on a host whose Slurm was never configured.
    """

    states: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    broken: str = ""


class Controller:
    """Answers for this host. `jobs` says whether the audit sends jobs; all questions end by `end`, by time.monotonic(), and a little."""

    def __init__(self, runner: Runner, sets: NodeSets, *, jobs: bool, end: float) -> None:
        self.runner = runner
        self._sets, self._jobs, self._end = sets, jobs, end
        self._slurm: SlurmView | None = None

    @property
    def left(self) -> float:
        """Seconds that a question may take."""
        return max(2.0, self._end - time.monotonic())

    def nodes(self, expression: str) -> tuple[str, ...]:
        """The nodes of a node set. Raises InputError, EnvmgrError as `NodeSets.resolve`."""
        return self._sets.resolve(expression)

    def slurm(self) -> SlurmView:
        """Asked once, whichever checks want to know."""
        if self._slurm is None:
            self._slurm = self._ask_slurm()
        return self._slurm

    def _ask_slurm(self) -> SlurmView:
        if not self._jobs and not slurm_here():
            return SlurmView()
        states, broken = states_or_reason(self.runner, self.left)
        return SlurmView(states, "" if broken == UNCONFIGURED and not self._jobs else broken)


_SECONDS = 10.0  # for all names together, here; as on nodes
_MOST = 256  # names
_ADDRESS = re.compile(r"[0-9.]+|.*:.*")
NONE = "-"  # of a name that resolves to nothing


def peers_text() -> str:
    """The shell function `peers_of`."""
    return script_text(__file__, "peers.sh")


def drawn(names: Sequence[str], day: int) -> list[str]:
    """Those that are asked for on a day: each of many nodes asks for all of them, and a name server has to answer."""
    if len(names) <= _MOST:
        return list(names)
    first = day * _MOST % len(names)
    return [*names[first:], *names[:first]][:_MOST]


def peers_here(nodes: Sequence[str], day: int, runner: Runner, seconds: float) -> dict[str, str]:
    """name -> its addresses on this host, `NONE` where it has none or this host does not say in time. Without nodes that are addresses."""
    names = drawn([node for node in nodes if not _ADDRESS.fullmatch(node)], day)
    if not names:
        return {}
    with scratch_folder("peers") as folder:
        file = folder / "names"
        file.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
        done = run_detached(
            ["/bin/sh", "-c", f'{peers_text()}\npeers_of "$1"', "sh", str(file)],
            seconds=min(_SECONDS, seconds),
            check=runner.raise_if_cancelled,
        )
    return dict.fromkeys(names, NONE) | read_peers(done.output)


def read_peers(text: str) -> dict[str, str]:
    """name -> addresses, of lines `NAME ADDRESS,…`; what follows is passed over."""
    fields = (line.split() for line in text.splitlines())
    return {name: addresses for name, addresses, *_ in (f for f in fields if len(f) >= 2)}


def peers_lines(peers: Mapping[str, str]) -> str:
    return "\n".join(f"{name} {addresses}" for name, addresses in peers.items())
