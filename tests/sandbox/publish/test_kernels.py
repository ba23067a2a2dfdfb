"""The kernels of a generation: a real jupyter-client finds and starts them, with what the module sets."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import ask_kernel
from tests.helpers.real_wheels import PLATFORM, real_wheels
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.waiting import DEADLINE
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

ENTRY, KERNEL = "nb/1.0", "nb-1.0"
VARIABLES = {
    "set": {"NB_PLAIN": "a b", "NB_MONEY": "$$HOME and $$$$ '\"", "NB_MINE": "${HOME}/x"},
    "set_default": {"NB_SOFT": "x"},
    "prepend": {"MANPATH": ["${root}/m"]},
}
ACCEPT = {f"variable:NB_{name}": "a test" for name in ("PLAIN", "MONEY", "MINE", "SOFT")}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[WheelBox]:
    """Generation 1 has a Python; generation 2 has an entry on it with ipykernel, too."""
    box = Sandbox(tmp_path_factory.mktemp("kernels"), str(channel.folder))
    box.write_site()
    made = make_wheel_box(box)
    made.house.add(*real_wheels("ipykernel", box.root / "wheels"))
    made.house.wheel("einops", "0.7")
    base = made.base()
    box.ok("build", base)
    wanted = {"python": base, "requirements": ["ipykernel", "einops"], "indexes": ["house"], "platform": PLATFORM}
    box.recipe(ENTRY, [], backend="wheels", input=wanted, environment=VARIABLES, accept=ACCEPT)
    box.ok("lock", ENTRY)
    box.ok("build", ENTRY)
    yield made
    box.clear()


def asked(box: Sandbox, folder: Path, *words: str, **extra: str) -> str:
    """What a Jupyter prints that has `folder` on JUPYTER_PATH, and nothing else but what this Python has."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(box.root), "JUPYTER_PATH": str(folder), "IPYTHONDIR": str(box.root / "ipython"), **extra}  # fmt: skip
    done = subprocess.run([sys.executable, ask_kernel.__file__, *words], env=env, capture_output=True, text=True, check=False, timeout=DEADLINE)  # fmt: skip
    return done.stdout + (done.stderr if done.returncode else "")


def kernels(box: Sandbox, folder: Path) -> dict[str, str]:
    rows = [line.split("\t") for line in asked(box, folder).splitlines()]
    return {name: shown for name, shown, place in rows if place.startswith(str(box.prefix))}


def test_jupyter_starts_an_entry_by_its_generation(scene: WheelBox) -> None:
    box = scene.box
    generation = box.prefix / "generations/0002"
    assert kernels(box, generation) == {KERNEL: "nb/1.0 (generation 2)"}
    root = scene.install(ENTRY)
    code = "import einops, os, sys\nprint(einops.__file__, sys.prefix, *map(os.environ.get, ['NB_PLAIN', 'NB_MONEY', 'NB_MINE', 'PATH', 'MANPATH', 'NB_SOFT', 'NB_ROOT', 'ENVMGR_GENERATION', 'PYTHONNOUSERSITE']), sep='\\n')"  # fmt: skip
    assert asked(box, generation, KERNEL, code).splitlines() == [
        f"{root}/lib/python{PYTHON}/site-packages/einops.py",
        str(root),
        "a b",
        "$HOME and $$ '\"",
        f"{box.root}/x",
        f"{generation}/shims/{ENTRY}:{root}/bin:/usr/bin:/bin",
        f"{root}/m:",
        "x",
        str(root),
        "2",
        "1",
    ]
