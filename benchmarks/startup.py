"""Starting up, a build with nothing to do, and the shipped catalog listed and checked.

The least that a program like ours can do is `_FLOOR`: one verb by typer, which imports pydantic for its parameters, and the
libraries that read a site: a model of pydantic's, YAML, JSON. It reads no file.

Both sides run with bytecode, as an installed program does: a machine that writes none would compile every module at each start.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.measure import Amount, Claim, Pairs, Ratio, alternate, took
from benchmarks.site import ENTRY, envmgr, make_site
from envmgr.system.files import remove_tree

_FLOOR = """
import os
os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
import typer
app = typer.Typer(add_completion=False)
@app.command()
def build(entries: list[str], dry_run: bool = False) -> None:
    import json, yaml
    from packaging.version import Version
    from pydantic import BaseModel
    class Site(BaseModel):
        prefix: str = ""
    Site(prefix="/prefix")
app()
"""


def _alternate(ours: Sequence[str | Path], theirs: Sequence[str | Path], env: Mapping[str, str], runs: int) -> Pairs:
    """Take turns, after one run of each side that writes its bytecode."""
    took(ours, env=env)
    took(theirs, env=env)
    return alternate(lambda: took(ours, env=env), lambda: took(theirs, env=env), runs * 4)


def claims(channel: str, runs: int) -> list[Claim]:
    script = Path(sys.executable).with_name("envmgr")
    root = Path(tempfile.mkdtemp(prefix="envmgr-bench-"))
    bytecode = {"PYTHONPYCACHEPREFIX": str(root / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
    typer = [sys.executable, "-c", "import typer"]
    try:
        env = make_site(root, channel) | bytecode
        plain = {**os.environ, **bytecode}
        helps = _alternate([script, "--help"], typer, plain, runs)
        completion = _alternate([script, "completion"], typer, plain, runs)
        took(envmgr("lock", ENTRY), env=env)
        took(envmgr("build", ENTRY), env=env)
        floor = _alternate([script, "build", ENTRY], [sys.executable, "-c", _FLOOR, ENTRY], env, runs)
        listed = _alternate([script, "list"], typer, env, runs)
        checked = _alternate([script, "check"], typer, env, runs)
        nothing = _alternate([script, "build", ENTRY], typer, env, runs)
    finally:
        remove_tree(root)
    cpu, words = (statistics.median(ours.cpu or ours.wall for ours, _ in each) for each in (nothing, completion))
    return [
        Ratio("envmgr --help / import typer", helps, 1.15),
        Ratio("completion / import typer", completion, 9, goal=3),
        Amount("completion, CPU time", words, 1, goal=0.2),
        Ratio("build with nothing to do / its libraries alone", floor, 1.3),
        Ratio("list of the shipped catalog / import typer", listed, 8, goal=6),
        Ratio("check of the shipped catalog / import typer", checked, 10, goal=6),
        Ratio("build with nothing to do / import typer", nothing, 6, goal=2.5),
        Amount("build with nothing to do, CPU time", cpu, 1, goal=0.2),
    ]
