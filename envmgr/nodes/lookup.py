"""The names of nodes, looked up as ssh would: this machine's name service, then ssh's own configuration."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Sequence

from envmgr.errors import CommandError
from envmgr.nodes import tool, tool_env
from envmgr.system.run import Runner

_AT_ONCE = 32
_ENOUGH = 20  # names that are asked of ssh: a cluster without a name service has no need for more


def unknown_names(nodes: Sequence[str], runner: Runner, *, seconds: float) -> tuple[list[str], bool]:
    """Return the nodes whose names nobody here knows, and whether all were asked within `seconds`.

    A name behind a jump host counts as known: it is looked up there.
    """
    end = time.monotonic() + seconds
    found, all_asked = _unresolved(nodes, seconds)
    if not found:
        return [], all_asked
    names = {node: _name_for_ssh(node, runner, max(1.0, end - time.monotonic())) for node in found[:_ENOUGH]}
    others = {name for node, name in names.items() if name not in {None, node}}
    unresolved, _ = _unresolved(sorted(map(str, others)), max(1.0, end - time.monotonic()))
    known = {node for node, name in names.items() if name is None or (name != node and name not in unresolved)}
    return [node for node in found if node not in known], all_asked


def _unresolved(names: Sequence[str], seconds: float) -> tuple[list[str], bool]:
    """Return the names that the name service does not know. A thread that hangs in it does not hold up the process."""
    todo: queue.SimpleQueue[str] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
    for name in names:
        todo.put(name)

    def work() -> None:
        while True:
            try:
                name = todo.get_nowait()
            except queue.Empty:
                return
            try:
                socket.getaddrinfo(name, None)
            except (OSError, UnicodeError):
                done.put((name, False))
            else:
                done.put((name, True))

    for _ in range(min(_AT_ONCE, len(names))):
        threading.Thread(target=work, daemon=True).start()
    end, known = time.monotonic() + seconds, dict[str, bool]()
    while len(known) < len(names):
        try:
            name, good = done.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
        known[name] = good
    return [name for name in names if known.get(name) is False], len(known) == len(names)


def _name_for_ssh(node: str, runner: Runner, seconds: float) -> str | None:
    """Return the name that ssh would look up for a node; None if a jump host looks it up, or ssh does not say."""
    try:
        said = runner.run([tool("ssh"), "-G", "--", node], env=tool_env(), timeout=seconds).stdout
    except CommandError:
        return node
    options = dict(line.split(" ", 1) for line in said.splitlines() if " " in line)
    jumps = any(options.get(key, "none") != "none" for key in ("proxyjump", "proxycommand"))
    return None if jumps else options.get("hostname", node)
