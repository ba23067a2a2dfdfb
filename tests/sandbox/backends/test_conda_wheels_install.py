"""Wheels over conda's packages in one install: they only add, it is whole or not there, and the same bytes each time."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.small_disk import small_in
from tests.helpers.standin.channel import Channel
from tests.helpers.waiting import wait_for
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

ENTRY = "both/1.0"
SPECS = [f"python {PYTHON}.*", "six", "pip"]
PACKAGES = f"lib/python{PYTHON}/site-packages"


@pytest.fixture
def scene(sandbox: Sandbox) -> WheelBox:
    return make_wheel_box(sandbox)


def test_entry_with_both(scene: WheelBox) -> None:
    """One prefix, one Python: scripts, data files, module, manifest, the mark; not one file of conda's is another."""
    scene.house.wheel(
        "one",
        files={
            "one-1.0.data/scripts/one-tool": "#!python\nimport one; one.main()\n",
            "one-1.0.data/data/share/man/man1/one.1": ".TH ONE 1\n",
            "one-1.0.data/headers/one.h": "\n",
        },
        requires=["six>=1"],
        scripts={"one": "one:main"},
    )
    scene.conda("alone/1.0", SPECS)
    scene.conda(ENTRY, SPECS, "one")
    scene.box.ok("lock", "alone/1.0", ENTRY)
    scene.box.ok("build", "alone/1.0", ENTRY)
    root, alone = scene.install(ENTRY), scene.install("alone/1.0")
    loaded = scene.box.shell(f"""
        module load {ENTRY} && one && one-tool && man -w one && command -v python
        python -c 'import one, six, sys; print(sys.prefix == sys.base_prefix == "{root}", one.__cached__)'
        python -m venv --system-site-packages --without-pip child && child/bin/python -c 'import one; print(one.__file__)'
    """)
    assert (loaded.stderr, loaded.stdout.splitlines()) == (
        "",
        [
            "one 1.0",
            "one 1.0",
            f"{root}/share/man/man1/one.1",
            f"{root}/bin/python",
            f"True {root}/{PACKAGES}/__pycache__/one.cpython-{PYTHON.replace('.', '')}.pyc",
            f"{root}/{PACKAGES}/one.py",
        ],
    )
    assert (root / f"{PACKAGES}/one-1.0.dist-info/INSTALLER").read_text() == "envmgr\n"
    refused = scene.box.shell(f"module load {ENTRY}; pip install tabulate")
    assert (refused.returncode, "pip cannot install packages in" in refused.stderr) == (1, True)
    both, less = paths(root), paths(alone)
    new = sorted(both.keys() - less.keys())
    assert less.keys() <= both.keys()
    assert {path for path in new if both[path][0] == "file" and not path.startswith(f"{PACKAGES}/")} == {
        "bin/one",
        "bin/one-tool",
        f"include/site/python{PYTHON}/one/one.h",
        "share/man/man1/one.1",
    }
    own = [path for path in less if not path.startswith("conda-meta/") and not path.endswith(".pyc")]
    same = [at for at in own if not ((root / at).is_file() and str(root).encode() in (root / at).read_bytes())]
    assert {path: both[path] for path in same} == {path: less[path] for path in same}
    record = json.loads((root.parent / f"{root.name}.manifest.json").read_text())
    assert {"py-rattler", "installer"} <= record["provenance"]["tools"].keys()
    assert "one/1.0" in (scene.box.prefix / f"current/modules/{ENTRY}.lua").read_text()
    scene.box.ok("verify")
    shown = scene.box.ok("list", ENTRY, "--format", "json").data
    assert (shown["packages"]["one"].split()[0], shown["state"]) == ("1.0", "published")


def paths(root: Path) -> dict[str, list[object]]:
    """Of an install, as its manifest has them: path -> type, mode, size, sha256."""
    manifest = json.loads((root.parent / f"{root.name}.manifest.json").read_text())
    return {path: facts for path, *facts in manifest["paths"]}


def test_pip_makes_another_install_and_an_entry_without_has_the_one_it_had(scene: WheelBox) -> None:
    scene.house.wheel("one")
    scene.house.wheel("one", "2.0")
    scene.conda(ENTRY, SPECS)
    scene.box.ok("lock", ENTRY)
    planned = [_planned(scene)]
    for rows in (("one==1.0",), ("one",), ()):
        scene.conda(ENTRY, SPECS, *rows)
        scene.box.ok("lock", ENTRY)
        planned.append(_planned(scene))
    assert len(set(planned)) == 3
    assert planned[0] == planned[3]


def test_pip_that_asks_for_what_conda_has_adds_nothing(scene: WheelBox) -> None:
    """No wheel is fetched."""
    scene.house.wheel("six", "1.99")
    scene.conda(ENTRY, SPECS)
    scene.box.ok("lock", ENTRY)
    before = _planned(scene)
    scene.conda(ENTRY, SPECS, "six>=1.10")
    done = scene.box.ok("lock", ENTRY)
    assert "wheels need what these packages of conda should bring: six 1.17.0;" in done.stdout + done.stderr
    assert _planned(scene) == before
    scene.box.ok("build", ENTRY)
    assert list(scene.box.prefix.glob("cache/wheels/*")) == []


def _planned(scene: WheelBox) -> str:
    (step,) = scene.box.ok("build", "--dry-run", ENTRY, "--format", "json").data["steps"]
    return str(step["planned"]["path"])


def test_two_installs_have_one_tree(scene: WheelBox) -> None:
    for name in ("one", "two", "three"):
        scene.house.wheel(
            name, files={"shared/__init__.py": "", f"{name}_more.py": "x = {1, 'a'}\n"}, scripts={name: f"{name}:main"}
        )
    scene.conda(ENTRY, SPECS, "one", "two", "three")
    scene.box.ok("lock", ENTRY)
    trees = []
    for _ in range(2):
        scene.box.ok("build", ENTRY, "--no-publish", "-j", "2")
        root = scene.install(ENTRY)
        manifest = root.parent / f"{root.name}.manifest.json"
        trees.append(json.loads(manifest.read_text())["tree"])
        remove_tree(root)
        manifest.unlink()
    assert trees[0] == trees[1]


def test_kill_among_the_wheels_then_a_rerun(scene: WheelBox) -> None:
    for name in ("one", "two"):
        scene.house.wheel(name, files={f"{name}_{n}.py": f"x = {n}\n" * 50 for n in range(400)})
    scene.conda(ENTRY, SPECS, "one", "two")
    scene.box.ok("lock", ENTRY)
    process = scene.box.start("build", ENTRY)
    wait_for(lambda: list(scene.box.prefix.glob(f"store/both/.staging-*/{PACKAGES}/one_1.py")), what="the first files")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_for(lambda: not scene.box.processes(), what="the end of its worker")
    scene.box.ok("build", ENTRY)
    assert scene.box.leftovers() == []
    assert scene.box.shell(f"module load {ENTRY}; python -c 'import one_399, two_399, six'").returncode == 0


def test_path_that_conda_has_is_refused_with_both_names(scene: WheelBox) -> None:
    scene.house.wheel("one", files={"six.py": "VERSION = 'another'\n"})
    scene.conda(ENTRY, SPECS, "one")
    scene.box.ok("lock", ENTRY)
    told = scene.refused("build", ENTRY).stderr
    assert f"error[wheel-over-conda]: conda's packages have what a wheel brings, too: {PACKAGES}/six.py\n" in told
    assert "  conda: six 1.17.0 " in told
    assert "  wheel: one-1.0-py3-none-any.whl\n" in told
    assert _nothing_left(scene)


def test_distribution_that_conda_has_is_refused(scene: WheelBox) -> None:
    """A lock that somebody wrote: nothing tells it what conda brings, and the build finds it."""
    scene.house.wheel("one")
    six = scene.house.wheel("six", "1.99", files={"six_other.py": ""})
    folder = scene.conda(ENTRY, SPECS, "one")
    scene.box.ok("lock", ENTRY)
    with (folder / "wheels.lock").open("a") as lock:
        lock.write(f"six==1.99 --hash=sha256:{hashlib.sha256(six.read_bytes()).hexdigest()}\n")
    told = scene.refused("build", ENTRY).stderr
    assert "error[wheel-over-conda]: conda's packages have what a wheel brings, too: six 1.17.0\n" in told
    assert "  conda: six 1.17.0 " in told


def test_package_that_brings_another_version_than_wheels_need(scene: WheelBox) -> None:
    """The lock went by names; the build goes by what it finds."""
    old = scene.house.wheel("one", requires=["six>=1.10"])
    folder = scene.conda(ENTRY, SPECS, "one")
    scene.box.ok("lock", ENTRY)
    sums = [hashlib.sha256(old.read_bytes()).hexdigest()]
    old.unlink()
    sums.append(hashlib.sha256(scene.house.wheel("one", requires=["six>=1.20"]).read_bytes()).hexdigest())
    lock = folder / "wheels.lock"
    lock.write_text(lock.read_text().replace(*sums))
    told = "conda's six 1.17.0 does not bring what its name promises: it brings six 1.17.0\n"
    said = scene.refused("build", ENTRY).stderr
    assert f"error[conda-lacks]: {told}  one 1.0 needs `six>=1.20`, the lock has six 1.17.0\n" in said, said
    assert _nothing_left(scene)


def test_wheels_are_carried_as_packages_are(scene: WheelBox) -> None:
    """`fetch` brings both; a build needs no index then."""
    scene.house.wheel("one")
    scene.conda(ENTRY, SPECS, "one")
    scene.box.ok("lock", ENTRY)
    scene.index(house="http://127.0.0.1:9/simple")
    missing = scene.box.ok("fetch", "--dry-run", ENTRY, "--format", "json").stdout
    assert "http://127.0.0.1:9/simple/one/" in missing
    told = scene.refused("fetch", ENTRY).stderr
    assert "error[no-network]: an index of house does not answer\n" in told
    scene.box.ok("fetch", ENTRY, "--file", str(scene.house.files))
    scene.box.ok("build", ENTRY)


def test_diff_lists_wheels(scene: WheelBox) -> None:
    scene.house.wheel("one")
    scene.conda(ENTRY, SPECS)
    scene.box.ok("lock", ENTRY)
    scene.box.ok("build", ENTRY)
    scene.conda(ENTRY, SPECS, "one")
    scene.box.ok("lock", ENTRY)
    scene.box.ok("build", ENTRY)
    told = scene.box.run("diff", "1", "2").stdout
    assert "one" in told
    assert re.search(r"1\.0 [0-9a-f]{8}\b", told)


def _nothing_left(scene: WheelBox) -> bool:
    return scene.box.leftovers() == [] and not list(scene.box.prefix.glob("store/both/*"))


def test_disk_full_among_the_wheels_then_a_rerun(tmp_path: Path, channel: Channel) -> None:
    with small_in(tmp_path, channel) as small:
        scene = make_wheel_box(small)
        small.mount("3g")
        scene.house.wheel("one", files={"large.py": "# " + "x" * (60 << 20) + "\n"})
        scene.conda("alone/1.0", SPECS)
        folder = scene.conda(ENTRY, SPECS, "one")
        small.ok("lock", "alone/1.0", ENTRY)
        lock = folder / "wheels.lock"  # without sizes: the check before the first byte lets the build begin
        lock.write_text(re.sub(r", \d+ bytes", "", lock.read_text()))
        small.ok("fetch", ENTRY)
        cache = shutil.disk_usage(small.prefix).used
        small.ok("build", "alone/1.0")
        tree = shutil.disk_usage(small.prefix).used - cache
        small.resize(str(cache + 2 * tree + (30 << 20)))
        told = scene.refused("build", ENTRY).stderr
        assert f"{ENTRY} link: " in told  # conda's packages found room
        assert "error[disk-full]: no space left under " in told, told
        assert (small.leftovers(), small.current()) == ([], 1)
        small.resize("3g")
        small.ok("build", ENTRY)
        assert small.current() == 2
