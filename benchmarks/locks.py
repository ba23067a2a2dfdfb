"""Locking a hundred wheels of the public index, against `uv pip compile` of the same rows.

Both sides ask the index that uv is configured with, over the network; uv has no cache, as in a first lock. Only CPU time says something: the
clock is mostly the network's.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Claim, NotMeasured, Ratio, Took, alternate, cpu_only, took
from benchmarks.site import envmgr, make_site
from envmgr.system.files import pretty_json, remove_tree

ROWS = ("jupyterlab==4.6.*", "notebook", "scikit-learn", "pandas", "matplotlib", "sympy", "requests", "rich", "tqdm")
PLATFORM = "x86_64-manylinux_2_28"
_UV = Path(sys.executable).with_name("uv")


def claims(channel: str, runs: int) -> list[Claim]:
    root = Path(tempfile.mkdtemp(prefix="envmgr-bench-"))
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    words = ["--no-cache", "--only-binary", ":all:", "--python-version", minor, "--python-platform", PLATFORM]
    uv: list[str | Path] = [_UV, "pip", "compile", "-q", *words, "--format", "pylock.toml", root / "rows.in"]
    try:
        env = make_site(root, channel)
        env |= {"PYTHONPYCACHEPREFIX": str(root / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}  # as an installed program
        (root / "rows.in").write_text("\n".join(ROWS))
        recipe = root / "recipes/wheels/1"
        recipe.mkdir(parents=True)
        (recipe.parent / "software.yaml").write_text(pretty_json({"description": "for benchmarks"}))
        asked = {"python": f"system/{minor}", "requirements": ROWS, "platform": PLATFORM}
        (recipe / "recipe.yaml").write_text(pretty_json({"schema": 1, "backend": "wheels", "input": asked}))
        if subprocess.run(uv, capture_output=True, check=False).returncode:
            return [NotMeasured("lock of wheels / uv pip compile", "uv reaches no index")]

        def ours() -> Took:
            (recipe / "wheels.lock").unlink(missing_ok=True)
            return cpu_only(took(envmgr("lock", "wheels/1"), env=env))

        ours()  # writes the bytecode of what it imports
        pairs = alternate(ours, lambda: cpu_only(took(uv)), runs)
        number = sum(not line.startswith(("#", " ")) for line in (recipe / "wheels.lock").read_text().splitlines())
    finally:
        remove_tree(root)
    note = f"CPU {statistics.median(each.cpu or 0 for each, _ in pairs):.2f} s"
    return [Ratio(f"lock of {number} wheels / uv pip compile without its cache", pairs, 2.5, note=note)]
