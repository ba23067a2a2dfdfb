"""Loading a module that says so to the syslog, and one that does not: to a socket that is read, and to one that hangs."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from benchmarks.measure import Amount, Claim, Shown
from envmgr.modules.lmod import find_lmod
from envmgr.modules.render import render_tree
from envmgr.modules.spec import ModuleSpec
from envmgr.modules.statements import ModulePolicies
from envmgr.system.files import shipped

_KINDS = ("bare", "read", "hung", "none")


def claims(rounds: int = 60) -> list[Claim]:
    """The differences of the times that a tenth of the loads kept, one of each in turn: neighbours slow the others."""
    lmod = find_lmod(None, os.environ)
    with tempfile.TemporaryDirectory(prefix="envmgr-bench-") as name:
        root = Path(name)
        for kind in _KINDS:
            _render(root, kind)
        loads = f"""
            for round in $(seq {rounds}); do for entry in {" ".join(_KINDS)}; do
              begin=$(date +%s%N); said=$("{lmod.commands}/lmod" bash load $entry 2>&1 >/dev/null) || exit; end=$(date +%s%N)
              [ -z "$said" ] || exit 1
              echo $entry $((end - begin))
            done; done"""
        with _socket(root / "read.log") as read, _socket(root / "hung.log"):
            _fill(root / "hung.log")
            heard: list[bytes] = []
            reader = threading.Thread(
                target=lambda: [heard.append(read.recv(4096)) for _ in range(rounds)], daemon=True
            )
            reader.start()
            environ = os.environ | {"MODULEPATH": name}
            done = subprocess.run(
                ["bash", "-c", loads], env=environ, check=True, capture_output=True, text=True, timeout=600
            )
            reader.join(60)
    times: dict[str, list[int]] = {kind: [] for kind in _KINDS}
    for line in done.stdout.splitlines():
        kind, nanoseconds = line.split()
        times[kind].append(int(nanoseconds))
    quick = {kind: sorted(each)[len(each) // 10] / 1e9 for kind, each in times.items()}
    words = {"read": "is read", "hung": "hangs, with a full queue", "none": "is not there"}
    return [
        Shown("loads of which the syslog heard", f"{len(heard)} of {rounds}"),
        *(
            Amount(f"what `usage: true` adds to a load, where the syslog {text}", max(quick[kind] - quick["bare"], 0.0), 0.005, goal=0.002)
            for kind, text in words.items()
        ),
        Shown("the same as a ratio", ", ".join(f"{kind} {quick[kind] / quick['bare']:.3f}x" for kind in words)),
    ]  # fmt: skip


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
