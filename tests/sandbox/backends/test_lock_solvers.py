"""`--solver conda-lock`: the same lock as rattler's, and conda's own words when it finds none.

conda itself is a stand-in that solves with rattler (tests/helpers/standin/conda_shim.py); conda-lock is the real one.
"""

from __future__ import annotations

import json

from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.standin.conda_shim import install_shim
from tests.helpers.wheel_scene import make_wheel_box


def test_conda_lock_comes_to_the_same_lock_as_rattler(sandbox: Sandbox, channel: Channel) -> None:
    # A record that wants a virtual package's build string, beside the stand-in channel's.
    records = json.loads((channel.folder / "noarch" / "repodata.json").read_bytes())
    record = {
        **records["packages.conda"]["shared-2.0-0.conda"],
        "name": "needs-arch",
        "depends": ["__archspec 1 x86_64"],
    }
    records["packages.conda"]["needs-arch-2.0-0.conda"] = record
    for subdir, text in {
        "noarch": json.dumps(records),
        "linux-64": (channel.folder / "linux-64" / "repodata.json").read_text(),
    }.items():
        (sandbox.root / "records" / subdir).mkdir(parents=True)
        (sandbox.root / "records" / subdir / "repodata.json").write_text(text)
    wanted = {
        "channels": ["standin"],
        "specs": ["numpy <2", "tabulate", "needs-cuda", "needs-arch", "left", "shared * 0"],
        "virtual_packages": {"__cuda": "11.8", "__archspec": "1 x86_64"},
    }
    sandbox.recipe("demo/1", [], input=wanted)
    sandbox.mirror = "records"
    sandbox.settings = {"conda": str(install_shim(sandbox.root))}
    sandbox.write_site()

    sandbox.ok("lock", "demo/1")
    done = sandbox.ok("lock", "demo/1", "--solver", "conda-lock")

    assert done.stdout.startswith("demo/1: unchanged ")


def test_conda_lock_comes_to_the_same_lock_with_wheels_beside(sandbox: Sandbox) -> None:
    scene = make_wheel_box(sandbox)
    scene.house.wheel("one", requires=["dep"])
    scene.house.wheel("dep")
    sandbox.settings = {**sandbox.settings, "conda": str(install_shim(sandbox.root))}
    sandbox.write_site()
    folder = scene.conda("both/1.0", [f"python {PYTHON}.*"], "one")
    sandbox.ok("lock", "both/1.0")
    assert "one==1.0 --hash=sha256:" in (folder / "wheels.lock").read_text()
    assert sandbox.ok("lock", "both/1.0", "--solver", "conda-lock").stdout.startswith("both/1.0: unchanged ")
    sandbox.ok("build", "both/1.0")


def test_conda_lock_tells_what_conda_said_when_it_cannot_solve(sandbox: Sandbox) -> None:
    sandbox.recipe("demo/1", ["left", "right"])
    shim = install_shim(sandbox.root)
    sandbox.settings = {"conda": str(shim)}
    sandbox.write_site()

    done = sandbox.run("lock", "demo/1", "--solver", "conda-lock")

    assert done.code == 3
    assert done.stderr.startswith(
        f"error[unsolvable]: conda-lock with {shim} finds no solution\n  entry demo/1\n  Cannot solve the request"
    )
    assert "shared <2" in done.stderr


def test_conda_lock_needs_a_conda_that_is_there(sandbox: Sandbox) -> None:
    sandbox.recipe("demo/1", ["shared"])
    sandbox.settings = {"conda": "/nowhere/conda"}
    sandbox.write_site()

    done = sandbox.run("lock", "demo/1", "--solver", "conda-lock")

    hint = "hint: name it in site.yaml (`backends: {conda: {program: …}}`), or lock with --solver rattler\n"
    assert done.code == 3
    assert done.stderr == (
        f"error[solver-missing]: /nowhere/conda is no program\n  entry demo/1\n  `backends.conda.program` in site.yaml\n\n{hint}"
    )
    other = sandbox.run("lock", "demo/1", "--solver", "mamba")
    assert other.code == 2
    assert other.stderr == (
        "error[unknown-solver]: there is no solver `mamba`\n  entry demo/1\n\nhint: known: rattler, conda-lock\n"
    )
