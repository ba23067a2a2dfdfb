"""Starting up, and a build with nothing to do."""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Claim, alternate, seconds
from benchmarks.site import ENTRY, envmgr, make_site
from envmgr.system.files import remove_tree


def claims(channel: str, runs: int) -> list[Claim]:
    script = Path(sys.executable).with_name("envmgr")
    ours, theirs = alternate(
        lambda: seconds([script, "--help"]), lambda: seconds([sys.executable, "-c", "import typer"]), runs * 4
    )
    found = [Claim("envmgr --help / import typer", ours, theirs, 2)]
    root = Path(tempfile.mkdtemp(prefix="envmgr-bench-"))
    try:
        env = make_site(root, channel)
        seconds(envmgr("lock", ENTRY), env=env)
        seconds(envmgr("build", ENTRY), env=env)
        nothing = statistics.median(seconds([script, "build", ENTRY], env=env) for _ in range(runs * 4))
        found.append(Claim("build with nothing to do", nothing, None, 0.3))
    finally:
        remove_tree(root)
    return found
