"""The addresses of the asked nodes' names on this host: each node is asked only for names that have another address there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from envmgr.system.run import Runner, run_detached
from envmgr.system.scratch import scratch_folder
from envmgr.system.shelltext import script_text

_SECONDS = 10.0  # for all names together, here; as on nodes
_MOST = 256  # names
_ADDRESS = re.compile(r"[0-9.]+|.*:.*")
NONE = "-"  # of a name that resolves to nothing


def peers_text() -> str:
    """The shell function `peers_of`."""
    return script_text(__file__, "sh")


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
