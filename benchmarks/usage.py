"""Loading a module that says so to the syslog, and one that does not: to a socket that is read, and to one that hangs."""

from __future__ import annotations

import os
import socket
import statistics
import tempfile
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

from benchmarks.measure import Amount, Claim, Ratio, Shown, Took, alternate, took
from envmgr.modules.lmod import find_lmod
from envmgr.modules.render import render_tree
from envmgr.modules.spec import ModuleSpec
from envmgr.modules.statements import ModulePolicies
from envmgr.system.files import shipped

_KINDS = {"read": "is read", "hung": "hangs, with a full queue", "none": "is not there"}


def claims(runs: int = 5, loads: int = 20) -> list[Claim]:
    """Return the ratios of some loads, and what one load more takes of the CPU's time."""
    lmod = find_lmod(None, os.environ)
    with tempfile.TemporaryDirectory(prefix="envmgr-bench-") as name:
        root = Path(name)
        for kind in ("bare", *_KINDS):
            _render(root, kind)

        def side(kind: str) -> Took:
            script = f'for load in $(seq {loads}); do "{lmod.commands}/lmod" bash load {kind} >/dev/null || exit; done'
            return took(["bash", "-c", script], env=os.environ | {"MODULEPATH": name})

        heard: list[bytes] = []
        with _socket(root / "read.log") as read, _socket(root / "hung.log"):
            _fill(root / "hung.log")
            threading.Thread(target=_hear, args=(read, heard, runs * loads), daemon=True).start()
            pairs = {kind: alternate(partial(side, kind), partial(side, "bare"), runs) for kind in _KINDS}
    found: list[Claim] = []
    for kind, words in _KINDS.items():
        more = statistics.median((ours.cpu or 0) - (theirs.cpu or 0) for ours, theirs in pairs[kind]) / loads
        what = f"`module load` with `usage: true` / without, where the syslog {words}"
        found += [Ratio(what, pairs[kind], 1.3), Amount("the same: CPU time of one load", max(more, 0.0), 0.002)]
    return [Shown("loads of which the syslog heard", f"{len(heard)} of {runs * loads}"), *found]


def _hear(read: socket.socket, heard: list[bytes], count: int) -> None:
    for _ in range(count):
        heard += [read.recv(4096)]


def _render(root: Path, kind: str) -> None:
    spec = ModuleSpec(
        name=kind, version="1.0", root=f"/prefix/store/{kind}/1.0-01234567", digest="0" * 64, description="A package"
    )
    policies = ModulePolicies(usage=kind != "bare")
    for path, text in render_tree([spec], generation=1, policies=policies, templates=shipped("modulefiles")).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text.replace('"/dev/log"', f'"{root}/{kind}.log"'))


def _socket(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.bind(str(path))
    return made


def _fill(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.connect(str(path))
        with suppress(BlockingIOError):
            while True:
                sender.send(b"x")
