"""Environments of users: making one, loading it, what it takes of a quota, and the words that a shell offers.

The packages are real ones, from the index that pip is configured with; they are fetched once into tests/.cache, and both sides take them from
there without a network. Both make a new environment each time: envmgr by its lock, uv by `uv venv` and `uv pip install`, without uv's cache
of unpacked wheels. envmgr always compiles bytecode, because its folder is read-only. `uv pip install` compiles none, unless asked to;
so it is measured in both ways.

The full environment has the same packages as the entry and the user's environment together, as uv installs them, without bytecode.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import Amount, Claim, NotMeasured, Ratio, Took, alternate, cpu_only, took
from envmgr.modules.lmod import find_lmod
from envmgr.system.files import remove_tree
from tests.helpers.places import CACHE
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

PACKAGES = ("scikit-learn", "pandas")
SMALL = ("einops", "tqdm", "rich", "click", "tabulate")
MORE = ("einops", "transformers")
TORCH = "torch==2.13.0+cpu"
WITH_CUDA = ("torch-2.10", "torch==2.10.*")
DRIVER = "525.60.13"  # the least that its CUDA needs
_UV = Path(sys.executable).with_name("uv")


def claims(channel: str, runs: int) -> list[Claim]:
    root = Path(tempfile.mkdtemp(prefix="envmgr-bench-"))
    box = Sandbox(root, channel)
    try:
        box.write_site()
        box.recipe("py/1", [f"python {PYTHON}.*"])
        box.ok("lock", "py/1")
        box.ok("build", "py/1")
        return [
            *_creates(box, max(2, runs // 2)),
            *_creates_small(box, runs),
            *_loads(box, runs),
            *_share(box),
            *_completion(box, runs),
            *_builds(box, max(2, runs // 2)),
        ]
    finally:
        remove_tree(root / ".local")
        box.clear()
        remove_tree(root)


def kept_wheels(name: str, *packages: str) -> Path | None:
    """Return the folder that has the packages with all that they need; None if pip finds them nowhere."""
    folder = CACHE / "bench-wheels" / name
    if not folder.is_dir():
        beside = folder.with_name(f".{name}")
        shutil.rmtree(beside, ignore_errors=True)
        argv: list[str | Path] = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--only-binary",
            ":all:",
            "-d",
            beside,
            *packages,
        ]
        if subprocess.run(argv, capture_output=True, check=False).returncode:
            return None
        beside.rename(folder)
    return folder


@contextmanager
def _index(box: Sandbox, wheels: Path) -> Iterator[WheelBox]:
    made = make_wheel_box(box)
    made.house.add(*wheels.glob("*.whl"))
    made.index(pypi=made.house.simple.as_uri(), house=made.house.simple.as_uri())
    yield made
    remove_tree(made.house.folder)


def _user(box: Sandbox, *argv: str) -> Took:
    return took(box.command("user", *argv), env=box.environ(HOME=str(box.root)), cwd=box.root)


def _uv_installs(box: Sandbox, made: WheelBox, *words: str, link: str = "copy", cache: str = "--no-cache") -> Took:
    """A new virtual environment on the entry's Python, with packages from the same files."""
    remove_tree(box.root / "venv")
    (base,) = (path for path in box.prefix.glob("store/py/1-*") if path.is_dir())
    files: list[str | Path] = ["--offline", "--no-index", "--find-links", made.house.files, cache, "--link-mode", link]
    making = took([_UV, "venv", "-q", "--python", base / "bin/python3", box.root / "venv"])
    putting = took([_UV, "pip", "install", "-q", "--python", box.root / "venv", *files, *words])
    return Took(making.wall + putting.wall, (making.cpu or 0) + (putting.cpu or 0))


def _creates(box: Sandbox, runs: int) -> list[Claim]:
    name = "user create of scikit-learn and pandas"
    wheels = kept_wheels("science", *PACKAGES)
    if wheels is None:
        return [NotMeasured(name, "pip cannot download them")]
    with _index(box, wheels) as made:

        def ours() -> Took:
            box.run("user", "delete", "bench", HOME=str(box.root))
            return _user(box, "create", "bench", "--on", "py/1", *PACKAGES)

        ours()  # writes the bytecode of what it imports
        same = alternate(ours, lambda: _uv_installs(box, made, "--compile-bytecode", *PACKAGES), runs)
        less = alternate(ours, lambda: _uv_installs(box, made, *PACKAGES), runs)
    return [
        Ratio(f"{name} / uv pip install --compile-bytecode", same, 1.5),
        Ratio(f"{name} / uv pip install, which compiles nothing", less, 8, goal=1.5),
    ]


def _creates_small(box: Sandbox, runs: int) -> list[Claim]:
    """Five small packages, with warm caches on both sides: what is not the packages' own work shows."""
    name = "user create of five small packages / uv pip install --compile-bytecode with its cache"
    wheels = kept_wheels("small", *SMALL)
    if wheels is None:
        return [NotMeasured(name, "pip cannot download them")]
    cache = f"--cache-dir={box.root / 'uv'}"
    with _index(box, wheels) as made:

        def ours() -> Took:
            box.run("user", "delete", "small", HOME=str(box.root))
            return cpu_only(_user(box, "create", "small", "--on", "py/1", *SMALL))

        def theirs() -> Took:
            return cpu_only(_uv_installs(box, made, "--compile-bytecode", *SMALL, cache=cache))

        ours(), theirs()
        return [Ratio(name, alternate(ours, theirs, runs), 2, goal=1.5, note="by CPU time")]


def _loads(box: Sandbox, runs: int) -> list[Claim]:
    """Lmod's own process, as a shell starts it; both find their modules in the same MODULEPATH."""
    lmod = find_lmod(None, os.environ).commands / "lmod"
    generation = (box.prefix / "current").resolve()
    own = box.root / ".local/share/envmgr/envs/.envmgr/modules"
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(box.root),
        "MODULEPATH": f"{generation}/modules:{own}",
        "LMOD_RC": f"{generation}/lmodrc.lua",
        "LMOD_CACHED_LOADS": "yes",
    }

    def load(module: str) -> Took:
        return took(
            ["bash", "--noprofile", "--norc", "-c", f"{lmod} bash load {module} | grep -q LOADEDMODULES"], env=env
        )

    load("user/bench"), load("py/1")
    pairs = alternate(lambda: load("user/bench"), lambda: load("py/1"), runs * 4)
    return [Ratio("module load of user/NAME / of the entry below it", pairs, 1.2)]


def _share(box: Sandbox) -> list[Claim]:
    """What the user's environment takes, of what a whole one takes, on the PyTorch for CPUs."""
    name = f"einops and transformers on {TORCH}, of a whole environment without bytecode"
    wheels = kept_wheels("torch", TORCH, *MORE)
    if wheels is None:
        return [NotMeasured(name, f"pip does not find {TORCH}, and that for GPUs has gigabytes")]
    with _index(box, wheels) as made:
        made.entry("torch/1", TORCH, "numpy", python="py/1", indexes=["house"])
        box.ok("lock", "torch/1")
        box.ok("build", "torch/1")
        _user(box, "create", "share", "--on", "torch/1", *MORE)
        _uv_installs(box, made, TORCH, "numpy", *MORE)
    ours = _amount((box.root / ".local/share/envmgr/envs/share").resolve())
    bare = _amount((box.root / ".local/share/envmgr/envs/share").resolve(), bytecode=False)
    theirs = _amount(box.root / "venv")
    return [
        Amount(f"{name}: bytes", 100 * ours[1] / theirs[1], 30, "%", goal=10),
        Amount(f"{name}: inodes", 100 * ours[0] / theirs[0], 60, "%", goal=10),
        Amount(f"{name}: inodes but for bytecode", 100 * bare[0] / theirs[0], 30, "%", goal=10),
    ]


def _builds(box: Sandbox, runs: int) -> list[Claim]:
    """An entry of wheels, built without a publish, all wheels in its cache. The removal of what was made before is no side's."""
    name = "build of PyTorch / uv pip install --compile-bytecode of the same wheels"
    kept = WITH_CUDA if os.environ.get("IMAGES") == "torch" else ("torch", TORCH, *MORE)
    wheels = kept_wheels(*kept)
    if wheels is None:
        return [NotMeasured(name, f"pip does not find {kept[1]}")]
    with _index(box, wheels) as made:
        folder = made.entry("pytorch/1", kept[1], python="py/1", indexes=["house"])
        if kept is WITH_CUDA:
            recipe = json.loads((folder / "recipe.yaml").read_text())
            (folder / "recipe.yaml").write_text(json.dumps(recipe | {"requires": {"nvidia_driver": DRIVER}}))
        box.ok("lock", "pytorch/1")
        box.ok("fetch", "pytorch/1")

        def ours() -> Took:
            remove_tree(box.prefix / "store/pytorch")
            _settle()
            return took(box.command("build", "--no-publish", "pytorch/1"), env=box.environ(), cwd=box.root)

        def theirs() -> Took:
            remove_tree(box.root / "venv")
            _settle()
            return _uv_installs(box, made, kept[1], "--compile-bytecode", link="hardlink")

        ours()  # writes the bytecode of what it imports
        return [Ratio(f"{name}, {kept[1]}", alternate(ours, theirs, runs), 1.35, goal=1)]


def _settle() -> None:
    """Let one side's writes not slow the other."""
    os.sync()
    time.sleep(5)


def _amount(tree: Path, *, bytecode: bool = True) -> tuple[int, int]:
    found = [
        path for path in (tree, *tree.rglob("*")) if bytecode or (path.name != "__pycache__" and path.suffix != ".pyc")
    ]
    return len(found), sum(path.lstat().st_size for path in found)


def _completion(box: Sandbox, runs: int) -> list[Claim]:
    """A bash that reads the text, and one Tab after a verb that takes entries, of which there are 1,000."""
    modules = (box.prefix / "current/modules").resolve()
    for number in range(1000):
        (modules / f"soft{number}").mkdir()
        (modules / f"soft{number}/1.0.lua").touch()
    text = box.root / "completion.bash"
    text.write_text(box.ok("completion", "bash").stdout)
    press = "COMP_LINE='envmgr build ' COMP_POINT=13; _envmgr envmgr '' build; [ ${#COMPREPLY[@]} -gt 1000 ]"
    bash = ["bash", "--noprofile", "--norc", "-c"]
    env = {"PATH": "/usr/bin:/bin"}
    argv, bare = [*bash, f". {text}; {press}"], [sys.executable, "-c", "pass"]
    pairs = alternate(lambda: took(argv, env=env), lambda: took(bare, env=env), runs * 4)
    return [
        Ratio("Tab after `envmgr build`, with 1,000 entries, in a new bash / `python -c pass`", pairs, 6),
        Amount(
            "Tab after `envmgr build`, with 1,000 entries, in a new bash",
            sorted(ours.wall for ours, _ in pairs)[runs * 2],
            0.2,
        ),
    ]
