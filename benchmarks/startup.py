"""Starting up, and a build with nothing to do.

The least that a program like ours can do is `_FLOOR`: one verb by typer, which imports pydantic for its parameters, and the
libraries that read a site: a model of pydantic's, YAML, JSON. It reads no file.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Amount, Claim, Ratio, alternate, took
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


def claims(channel: str, runs: int) -> list[Claim]:
    script = Path(sys.executable).with_name("envmgr")
    helps = alternate(lambda: took([script, "--help"]), lambda: took([sys.executable, "-c", "import typer"]), runs * 4)
    root = Path(tempfile.mkdtemp(prefix="envmgr-bench-"))
    try:
        env = make_site(root, channel)
        took(envmgr("lock", ENTRY), env=env)
        took(envmgr("build", ENTRY), env=env)
        nothing = alternate(
            lambda: took([script, "build", ENTRY], env=env),
            lambda: took([sys.executable, "-c", _FLOOR, ENTRY], env=env),
            runs * 4,
        )
    finally:
        remove_tree(root)
    cpu = statistics.median(ours.cpu or ours.wall for ours, _ in nothing)
    return [
        Ratio("envmgr --help / import typer", helps, 1.3, goal=1.2),
        Ratio("build with nothing to do / its libraries alone", nothing, 1.75),
        Amount("build with nothing to do, CPU time", cpu, 1, goal=0.2),
    ]
