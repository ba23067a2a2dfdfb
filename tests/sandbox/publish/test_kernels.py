"""The kernels of a generation: a real jupyter-client finds and starts them, with what the module sets."""

from __future__ import annotations

import json
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
    box.recipe(ENTRY, [], backend="wheels", input=wanted, environment=VARIABLES)
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


def test_notebook_goes_on_after_a_publish_and_rollback_takes_a_kernel_back(scene: WheelBox) -> None:
    box, current = scene.box, scene.box.prefix / "current"
    box.recipe("hello/1.0", ["hello-prefix"])
    box.ok("lock", "hello/1.0")
    box.ok("build", "hello/1.0")
    try:
        assert kernels(box, current) == {KERNEL: "nb/1.0 (generation 3)"}
        box.ok("rollback", "1")
        assert kernels(box, current) == {}
        assert "NoSuchKernel" in asked(box, current, KERNEL, "print(1)")
        assert kernels(box, box.prefix / "generations/0002") == {KERNEL: "nb/1.0 (generation 2)"}  # as a shell pins it
        box.ok("rollback", "3")
        assert asked(box, current, KERNEL, "import einops; print(einops.VERSION)") == "0.7\n"
        box.ok("publish", "--remove", ENTRY)
        assert kernels(box, current) == {}
    finally:
        box.run("rollback", "2")


def test_verify_compares_kernels_with_the_generations_record(scene: WheelBox) -> None:
    box = scene.box
    file = box.prefix / f"generations/0002/kernels/{KERNEL}/kernel.json"
    before = file.read_text()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o444, 0o555)
    try:
        file.chmod(0o644)
        file.write_text(before.replace("ipykernel_launcher", "another"))
        (file.parent.parent / "more").symlink_to("/nowhere")
        done = box.run("verify", "--generation", "2")
        assert done.code == 1
        assert f"generations/0002/kernels/{KERNEL}/kernel.json" in done.stdout
        assert "generations/0002/kernels/more" in done.stdout
    finally:
        file.write_text(before)
        file.chmod(0o444)
        (file.parent.parent / "more").unlink()
    assert box.run("verify", "--generation", "2").code == 0


def test_pip_in_a_notebook_is_the_modules(scene: WheelBox) -> None:
    """`!pip install` is the shim, which refuses and says where packages of a user's own go."""
    said = asked(scene.box, scene.box.prefix / "generations/0002", KERNEL, "import subprocess; r = subprocess.run(['pip', 'install', 'two'], capture_output=True, text=True); print(r.returncode, r.stderr)")  # fmt: skip
    assert said.startswith("1 error: pip cannot install packages in the module nb/1.0")


def test_user_kernel_has_what_the_users_module_has(scene: WheelBox) -> None:
    """An environment on the entry, whose ipykernel it starts; a value with dollars and quotes is the same in it."""
    box = scene.box
    scene.index(pypi=scene.house.simple.as_uri(), house=scene.house.simple.as_uri())
    scene.house.wheel("two", "2.0")
    home = {"HOME": str(box.root)}
    box.ok("user", "create", "mine", "--on", ENTRY, "two", **home)
    box.ok("user", "kernel", "mine", **home)
    code = "import einops, os, two; print(einops.VERSION, two.VERSION, os.environ['NB_MONEY'], os.environ['NB_ROOT'])"
    said = asked(box, box.root / ".local/share/jupyter", "user-mine", code)
    assert said == f"0.7 2.0 $HOME and $$ '\" {scene.install(ENTRY)}\n"


def test_entry_without_ipykernel_and_one_below_it_have_no_kernel(scene: WheelBox) -> None:
    """A Python of its own does not see the packages of the one below."""
    box = scene.box
    record = json.loads((box.prefix / "generations/0002/modules.json").read_text())
    assert {name: row["spec"].get("kernel", False) for name, row in record.items()} == {ENTRY: True, f"python/{PYTHON}": False}  # fmt: skip
