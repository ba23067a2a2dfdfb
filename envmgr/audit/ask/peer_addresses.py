"""The addresses of the asked nodes' names on this host. Each node reports only names that have another address
there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from envmgr.system.run import Runner, run_detached
from envmgr.system.scratch import scratch_folder
from envmgr.system.shelltext import assign, script_text

_SECONDS = 10.0  # for all names together, here as on nodes
_MOST = 256  # names
_ADDRESS = re.compile(r"[0-9.]+|.*:.*")
NONE = "-"  # for a name that does not resolve


def peers_text(peers: Mapping[str, str]) -> str:
    """Return the shell function `peers_of`, and the addresses of these names as its variable `names_peers`."""
    lines = "\n".join(f"{name} {addresses}" for name, addresses in peers.items())
    return assign(names_peers=lines) + script_text(__file__, "sh")


def drawn(names: Sequence[str], day: int) -> list[str]:
    """Return the names to ask for on a day. Each of many nodes asks for all of them, and a name server has to
    answer.
    """
    if len(names) <= _MOST:
        return list(names)
    # Another part each day, so that all names have their turn.
    first = day * _MOST % len(names)
    return [*names[first:], *names[:first]][:_MOST]


def peers_here(nodes: Sequence[str], day: int, runner: Runner, seconds: float) -> dict[str, str]:
    """Return name -> its addresses on this host; without nodes that are given as addresses.

    A name has `NONE` if it has no address, or if this host does not answer in time.
    """
    names = drawn([node for node in nodes if not _ADDRESS.fullmatch(node)], day)
    if not names:
        return {}
    with scratch_folder("peers") as folder:
        file = folder / "names"
        file.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
        # In a process that can be left behind: a name server that is silent would stop this one.
        done = run_detached(
            ["/bin/sh", "-c", f'{peers_text({})}\npeers_of "$1"', "sh", str(file)],
            seconds=min(_SECONDS, seconds),
            check=runner.raise_if_cancelled,
        )
    return dict.fromkeys(names, NONE) | read_peers(done.output)


def read_peers(text: str) -> dict[str, str]:
    """Return name -> addresses from lines `NAME ADDRESS,…`; the rest of a line is ignored."""
    fields = (line.split() for line in text.splitlines())
    return {name: addresses for name, addresses, *_ in (f for f in fields if len(f) >= 2)}
