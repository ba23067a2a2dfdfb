"""Entries below an environment that are hard for a resolver: a version that no index has, packages that are needed and not there,
a GPU. What the entry has is never asked of an index.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.wheel_scene import WheelBox, make_wheel_box
from tests.helpers.wheelhouse import Wheelhouse

LOCAL, CONDA, GPU = "torch/2.1-cu118", "torch/2.1-conda", "gpu/1.0"
NVIDIA = [f"nvidia-{part}-cu12" for part in ("cublas", "cuda-cupti", "cuda-nvrtc", "cuda-runtime", "cudnn", "cufft", "curand", "cusolver", "cusparse", "nccl", "nvjitlink", "nvtx")]  # fmt: skip
OLD_NODE = """
mount -t tmpfs none /sys/module; mount -t tmpfs none /run
mkdir /sys/module/nvidia; echo 470.57.02 >/sys/module/nvidia/version
"""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[WheelBox]:
    """The public index has PyTorch as it is there: another build of 2.1.2, a newer one, and what both need."""
    box = Sandbox(tmp_path_factory.mktemp("bases"), str(channel.folder))
    box.write_site()
    made = make_wheel_box(box)
    public = Wheelhouse(box.root / "public")
    made.index(house=made.house.simple.as_uri(), pypi=public.simple.as_uri())
    made.house.wheel("torch", "2.1.2+cu118")
    needs = [f'{name}==12.1; platform_system == "Linux"' for name in NVIDIA]
    public.wheel("torch", "2.1.2", requires=needs)
    public.wheel("torch", "2.2.0", requires=needs)
    for name in NVIDIA:
        public.wheel(name, "12.1")
    public.wheel("einops", "0.7")
    public.wheel("lightning", "2.1", requires=["torch>=2.1,<3", "einops"])
    wheels = {"python": made.base(), "requirements": ["torch==2.1.2+cu118"], "indexes": ["house"]}
    box.recipe(LOCAL, [], backend="wheels", input=wheels, requires={"nvidia_driver": "450.80.02"})
    box.recipe(CONDA, [f"python {PYTHON}.*"])
    box.recipe(GPU, [f"python {PYTHON}.*"], requires={"nvidia_driver": "525.60.13"})
    for entry in (LOCAL, CONDA, GPU):
        box.ok("lock", entry)
        box.ok("build", entry)
    _as_conda_has_it(made.install(CONDA), needs)
    yield made
    remove_tree(box.root / ".local")
    box.clear()


def _as_conda_has_it(install: Path, needs: list[str]) -> None:
    """conda's PyTorch: its metadata says what PyPI's wheel needs, and conda has the libraries in packages of its own."""
    packages = install / f"lib/python{PYTHON}/site-packages"
    packages.chmod(0o755)
    (info := packages / "torch-2.1.2.dist-info").mkdir()
    rows = [f"Requires-Dist: {each}" for each in needs]
    (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", "Name: torch", "Version: 2.1.2", *rows, ""]))
    (packages / "torch.py").write_text("VERSION = '2.1.2'\n")


def came(box: Sandbox, *argv: str) -> list[str]:
    done = box.ok("user", "create", *argv, "--format", "json", HOME=str(box.root)).data
    return [f"{each['name']} {each['after']}" for each in done["changes"]]


@pytest.mark.parametrize("entry", [LOCAL, CONDA])
def test_one_package_comes_and_nothing_of_the_entry_s_pytorch(scene: WheelBox, entry: str) -> None:
    box, name = scene.box, entry.rpartition("-")[2]
    assert came(box, name, "--on", entry, "einops") == ["einops 0.7"]
    assert came(box, f"{name}-more", "--on", entry, "lightning") == ["einops 0.7", "lightning 2.1"]
    said = box.shell(f"module load user/{name}-more\npython -c 'import lightning, torch; print(torch.__file__)'\n")
    assert said.stdout.startswith(f"{scene.install(entry)}/"), said.stderr
    home = {"HOME": str(box.root)}
    exported = box.ok("user", "export", f"{name}-more", **home).stdout  # a colleague's is held to the same
    (box.root / "theirs-wheels.lock").write_text(exported)
    assert came(box, f"{name}-theirs", "--from-lock", "theirs-wheels.lock") == ["einops 0.7", "lightning 2.1"]


@pytest.mark.parametrize("policy", ["warn", "refuse"])
def test_module_says_of_the_node_s_driver_what_the_entry_says(scene: WheelBox, policy: str) -> None:
    box = scene.box
    box.policies["driver_gate"] = policy
    box.write_site()
    box.ok("publish", GPU)
    came(box, f"{policy}s", "--on", GPU, "einops")
    entry, own = (_load_on_old_node(box, each) for each in (GPU, f"user/{policy}s"))
    assert "driver 470.57.02 is older than 525.60.13" in " ".join(entry.stderr.split())
    words = [done.stderr.partition("While processing")[0].split() for done in (entry, own)]  # then come paths
    assert words[1] == [f"user/{policy}s" if word == GPU else word for word in words[0]]
    assert own.returncode == entry.returncode
    assert own.returncode == (policy == "refuse")


def _load_on_old_node(box: Sandbox, module: str) -> Any:
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    argv = ["unshare", *user, "--mount", "bash", "--noprofile", "--norc"]
    script = f"{OLD_NODE}{box.ok('shell-init', 'bash').stdout}module load {module}\n"
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(box.root)}
    return subprocess.run(argv, input=script, env=env, capture_output=True, text=True, check=False)
