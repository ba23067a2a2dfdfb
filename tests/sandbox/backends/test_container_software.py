"""What an image brings beside programs: a Python with ipykernel is a kernel of the generation, GPU code and CUDA are judged."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from envmgr.catalog.fitness import NodeFacts
from envmgr.catalog.gpus import Gpu
from envmgr.store.node_facts import FleetFacts, SeenNodes, facts_file
from envmgr.store.prefix import Prefix
from tests.helpers import ask_kernel
from tests.helpers.backends.container import HELLO, ContainerScene, open_scene
from tests.helpers.fatbin import elf, fatbin
from tests.helpers.real_wheels import real_wheels
from tests.helpers.registry import busybox, files, libraries, trees
from tests.helpers.sandbox import PYTHON
from tests.helpers.small_disk import Small
from tests.helpers.standin.channel import Channel
from tests.helpers.waiting import DEADLINE

ENTRY = "tool/1.0"


@pytest.fixture
def scene(tmp_path: Path, channel: Channel) -> Iterator[ContainerScene]:
    with contextmanager(open_scene)(tmp_path, channel) as scene:
        yield scene


def recipe(scene: ContainerScene, image: str, commands: object, requires: dict[str, object], **given: object) -> None:
    wanted = {"image": f"{scene.registry.host}/{image}", "commands": commands, **given}
    scene.box.recipe(ENTRY, [], backend="container", input=wanted, requires=requires)


def push_python(scene: ContainerScene) -> None:
    """Push an image with a Python that has ipykernel, of this machine's packages."""
    scene.box.recipe("base/1.0", ["python"])
    scene.box.ok("lock", "base/1.0")
    scene.box.ok("build", "base/1.0", "--no-publish")
    (python,) = scene.box.prefix.glob("store/base/*/")
    packages = scene.box.root / "packages"
    for wheel in real_wheels("ipykernel", scene.box.root / "wheels"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    binaries = [python / "bin/python3", *packages.rglob("*.so")]
    layers = [
        busybox(),
        files(libraries(*binaries), mode=0o755),
        trees({"opt/py": python, f"opt/py/lib/python{PYTHON}/site-packages": packages}),
    ]
    scene.registry.push("lab/python:1.0", layers, Env=["PATH=/opt/py/bin:/bin", "GREETING=from inside"])


def asked(scene: ContainerScene, *words: str) -> str:
    """What a Jupyter prints that has the generation on JUPYTER_PATH."""
    root = scene.box.root
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(root),
        "JUPYTER_PATH": str(scene.box.prefix / "current"),
        "PYTHONPATH": "/x",
    }
    done = subprocess.run(
        [sys.executable, ask_kernel.__file__, *words], env=env, capture_output=True, text=True, check=False, timeout=DEADLINE
    )  # fmt: skip
    return done.stdout + (done.stderr if done.returncode else "")


def test_python_of_an_image_is_a_kernel(scene: ContainerScene) -> None:
    push_python(scene)
    recipe(scene, "lab/python:1.0", ["python3"], {})
    scene.box.ok("lock", ENTRY)
    scene.box.ok("build", ENTRY)
    (shown,) = (line.split("\t")[:2] for line in asked(scene).splitlines() if line.startswith("tool"))
    assert shown == ["tool-1.0", "tool/1.0 (generation 1)"]
    code = "import os, sys; print(sys.prefix, os.environ['GREETING'], os.environ['ENVMGR_GENERATION'], *sys.path[1:2], sep='\\n')"
    assert asked(scene, "tool-1.0", code).splitlines()[:3] == ["/opt/py", "from inside", "1"]
    local = scene.box.root / f".local/lib/python{PYTHON}/site-packages"
    local.mkdir(parents=True)
    (local / "leaky.py").touch()
    script = f"module load {ENTRY}; python3 -c 'import leaky' 2>/dev/null || echo no; PYTHONNOUSERSITE= python3 -c 'import leaky; print(1)'"
    assert scene.box.shell(script).stdout.split() == ["no", "1"]


def test_image_of_200000_files(scene: ContainerScene) -> None:
    many = files({f"data/{number // 100}/{number}": b"%d" % number for number in range(200_000)})
    scene.registry.push("lab/many:1.0", [busybox(), many], Env=["PATH=/bin"])
    recipe(scene, "lab/many:1.0", {"look": "/bin/cat"}, {})
    scene.box.ok("lock", ENTRY)
    done = scene.box.run("build", ENTRY, timeout=20 * DEADLINE)
    assert done.code == 0, done.stderr
    assert scene.box.shell(f"module load {ENTRY}; look /data/1999/199999").stdout == "199999"


def test_layer_that_unpacks_to_more_than_there_is_room_for(scene: ContainerScene) -> None:
    box, small = scene.box, scene.box.root / "small"
    small.mkdir()
    scene.registry.push("lab/bomb:1.0", [busybox(), files({"large": bytes(400 << 20)})], Env=["PATH=/bin"])
    recipe(scene, "lab/bomb:1.0", {"look": "/bin/cat"}, {})
    box.settings["build_dir"] = str(small)
    box.policies["min_free"] = 200 << 20
    box.write_site()
    box.ok("lock", ENTRY)
    inside = Small.enter(box.root, f"mount -t tmpfs -o size=400m,mode=1777 tmpfs {small}")
    try:
        argv = [*inside.words(), *box.command("build", ENTRY)]
        done = subprocess.run(argv, cwd=box.root, env=box.environ(), capture_output=True, text=True, check=False)
    finally:
        inside.leave()
    assert (done.returncode, "error[disk-full]" in done.stderr) == (3, True), done.stderr
    assert "layer 2 of 2 unpacks to more" in done.stderr
    assert box.leftovers() == []


def test_image_with_cuda_is_judged_by_its_code_and_its_driver(scene: ContainerScene) -> None:
    layers = [
        busybox(),
        files({"usr/bin/hello": HELLO}, mode=0o755),
        files({"opt/lib/libold.so": elf(fatbin(["5.0", "6.0"]), ".nv_fatbin"), "opt/lib/libown.so.1": b"x" * 5000}),
        files({"opt/lib/libown.so.1": elf(fatbin(["8.0", "9.0"]), ".nv_fatbin"), "opt/lib/.wh.libold.so": b""}),
    ]
    scene.registry.push("lab/gpu:1.0", layers, Env=["PATH=/usr/bin:/bin", "CUDA_VERSION=12.6.0.022"])
    recipe(scene, "lab/gpu:1.0", ["hello"], {}, gpu=True)
    done = scene.box.run("lock", ENTRY)
    assert (done.code, "error[lock-contradicts]" in done.stderr) == (2, True), done
    assert 'requires: {nvidia_driver: "525.60.13"}' in done.stderr
    recipe(scene, "lab/gpu:1.0", ["hello"], {"nvidia_driver": "525.60.13"}, gpu=True)
    scene.box.ok("lock", ENTRY)
    scene.box.ok("build", ENTRY, "--no-publish")
    (path,) = scene.box.prefix.glob("store/tool/*.json")
    assert json.loads(path.read_text())["facts"]["gpu_codes"] == ["8.0", "9.0"]
    _nodes_have(scene, "470.57.02", "8.0")
    done = scene.box.run("build", "--gate", ENTRY)
    assert (done.code, "driver 470.57.02" in done.stderr) == (3, True), done
    _nodes_have(scene, "560.35.03", "7.5")
    done = scene.box.run("build", "--gate", ENTRY)
    assert (done.code, "7.5" in done.stderr) == (3, True), done
    _nodes_have(scene, "560.35.03", "9.0")
    scene.box.ok("build", "--gate", ENTRY)


def _nodes_have(scene: ContainerScene, driver: str, arch: str) -> None:
    gpu = Gpu(vendor="nvidia", arch=arch, name="NVIDIA A100", driver=driver)
    facts = NodeFacts(driver=driver, gpus=(gpu,), library=driver, glibc="2.34", arch="x86_64", cpu_level="x86-64-v4")
    seen = (SeenNodes(nodes=("c1",), time=time.time(), facts=facts),)
    path = facts_file(Prefix(scene.box.prefix))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FleetFacts(groups={"compute": ("c1",)}, seen=seen).model_dump_json(by_alias=True))
