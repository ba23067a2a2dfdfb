"""A user's environment as a kernel of Jupyter: what jupyter-client reads, and what its command runs with."""

from __future__ import annotations

import json
import string
import subprocess
from pathlib import Path

from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

LAUNCHER = """\
import os, sys
import einops

print(sys.argv[1:], einops.__file__, os.environ["PYTHONNOUSERSITE"], os.environ["PATH"])
"""


def test_kernel_starts_with_the_environment_and_follows_its_changes(sandbox: Sandbox) -> None:
    made = make_wheel_box(sandbox)
    made.index(pypi=made.house.simple.as_uri())
    home = str(sandbox.root)
    sandbox.recipe("sci/1.0", [f"python {PYTHON}.*"])
    sandbox.ok("lock", "sci/1.0")
    sandbox.ok("build", "sci/1.0")
    made.house.wheel("einops", "0.7")
    made.house.wheel("ipykernel", files={"ipykernel_launcher.py": LAUNCHER})
    file = sandbox.root / ".local/share/jupyter/kernels/user-mine/kernel.json"

    def user(*argv: str) -> str:
        return sandbox.ok("user", *argv, HOME=home).stdout

    user("create", "mine", "--on", "sci/1.0", "einops")
    refused = sandbox.run("user", "kernel", "mine", HOME=home)
    assert (refused.code, "error[no-ipykernel]" in refused.stderr) == (2, True)
    user("add", "mine", "ipykernel")
    assert "mine (sci/1.0, generation 1)" in user("kernel", "mine", "--dry-run")
    assert not file.exists()
    user("kernel", "mine")
    assert started(file) == f"['-f', 'connection'] {sandbox.root}/.local/share/envmgr/envs/mine/lib/python{PYTHON}/site-packages/einops.py 1 {path(made)}:/usr/bin:/bin\n"  # fmt: skip
    user("remove", "mine", "einops")
    assert "No module named 'einops'" in started(file)  # the link leads to what the environment is now
    user("delete", "mine")
    assert not file.parent.exists()
    user("create", "plots", "--on", "sci/1.0", "ipykernel")
    user("kernel", "plots")
    assert "wrote" in user("kernel", "plots")
    assert "removed the kernel" in user("remove", "plots", "ipykernel")
    assert [*file.parents[1].iterdir()] == []
    assert "there is no kernel" in user("kernel", "plots", "--remove")
    file = file.parents[1] / "user-plots/kernel.json"  # by hand
    file.parent.mkdir()
    file.write_text('{"mine": 1}')
    user("add", "plots", "ipykernel")
    refused = sandbox.run("user", "kernel", "plots", HOME=home)
    assert (refused.code, "error[name-taken]" in refused.stderr) == (2, True)
    user("delete", "plots")
    assert file.read_text() == '{"mine": 1}'


def path(made: WheelBox) -> str:
    (base,) = (each for each in made.box.prefix.glob("store/sci/*") if each.is_dir())
    return f"{made.box.root}/.local/share/envmgr/envs/mine/bin:{base}/bin"


def started(file: Path) -> str:
    """What the command of a kernel prints, started as jupyter-client does: with `${NAME}` from its own environment."""
    spec = json.loads(file.read_text())
    own = {"PATH": "/usr/bin:/bin"}
    env = {name: string.Template(value).safe_substitute(own) for name, value in spec["env"].items()}
    argv = [word.format(connection_file="connection") for word in spec["argv"]]
    done = subprocess.run(argv, env=own | env, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
