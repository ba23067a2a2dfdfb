"""Wheels become an install: over a Python of the catalog, the same bytes each time, whole or not there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.fatbin import elf, fatbin
from tests.helpers.places import CACHE
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.small_disk import small_in
from tests.helpers.standin.channel import Channel
from tests.helpers.standin.server import Fault
from tests.helpers.standin.wheels import Pin, fetch_wheels
from tests.helpers.waiting import DEADLINE, wait_for
from tests.helpers.wheel_scene import BASE, WheelBox, make_wheel_box

ENTRY = "some/1.0"


@pytest.fixture
def scene(sandbox: Sandbox) -> WheelBox:
    return make_wheel_box(sandbox)


def test_entry_on_a_python_of_the_catalog(scene: WheelBox) -> None:
    """One prefix of its own: scripts, data files, man pages; a user's environment on top of it sees its packages."""
    scene.house.wheel(
        "one",
        files={
            "one-1.0.data/scripts/one-tool": "#!python\nimport one; one.main()\n",
            "one-1.0.data/data/share/man/man1/one.1": ".TH ONE 1\n",
            "one-1.0.data/data/etc/one.conf": "x\n",
            "__pycache__/one.cpython-311.pyc": "of another time",
        },
        requires=["dep"],
        scripts={"one": "one:main"},
    )
    scene.house.wheel("dep")
    scene.entry(ENTRY, "one", python=scene.base())
    scene.lock(ENTRY)
    scene.box.ok("build", ENTRY)
    root = scene.install(ENTRY)
    (base,) = (p for p in scene.box.prefix.glob("store/python/*") if p.is_dir())
    loaded = scene.box.shell(f"""
        module load {ENTRY} && one && one-tool && man -w one && command -v python
        python -c 'import dep, one, sys; print(sys.prefix == sys.base_prefix == "{root}", one.__cached__)'
        python -m venv --system-site-packages --without-pip child && child/bin/python -c 'import dep; print(dep.__file__)'
    """)
    assert (loaded.stderr, loaded.stdout.splitlines()) == (
        "",
        [
            "one 1.0",
            "one 1.0",
            f"{root}/share/man/man1/one.1",
            f"{root}/bin/python",
            f"True {root}/lib/python{PYTHON}/site-packages/__pycache__/one.cpython-{PYTHON.replace('.', '')}.pyc",
            f"{root}/lib/python{PYTHON}/site-packages/dep.py",
        ],
    )
    assert not (root / "pyvenv.cfg").exists()
    assert (root / f"lib/python{PYTHON}/os.py").readlink() == base / f"lib/python{PYTHON}/os.py"
    assert "module load python" not in loaded.stdout
    record = json.loads((scene.box.prefix / "current/generation.json").read_text())
    assert sorted(record["entries"]) == [ENTRY]  # the base is an install, not a module
    scene.box.ok("verify")


def test_gc_keeps_the_base_as_long_as_what_stands_on_it(scene: WheelBox) -> None:
    scene.house.wheel("one")
    scene.entry(ENTRY, "one", python=scene.base())
    scene.lock(ENTRY)
    scene.box.ok("build", ENTRY)
    scene.box.policies |= {"keep_days": 0, "keep_generations": 1}
    scene.box.write_site()
    assert scene.box.ok("gc", "--format", "json").data["installs"] == []
    scene.box.ok("publish", "--remove", ENTRY)
    gone = scene.box.ok("gc", "--format", "json").data["installs"]
    assert sorted(path.split("/")[1] for path in gone) == ["python", "some"]


def test_base_that_was_locked_anew_makes_the_entry_outdated_and_says_why(scene: WheelBox) -> None:
    scene.house.wheel("one")
    scene.entry(ENTRY, "one", python=scene.base())
    scene.lock(ENTRY)
    scene.box.ok("build", ENTRY)
    before = scene.install(ENTRY)
    assert _state(scene) == ("published", [])
    scene.base("six")
    state, notes = _state(scene)
    assert state == "outdated"
    assert any(f"stands on {BASE}" in note for note in notes), notes
    scene.box.ok("build", ENTRY)
    assert (_state(scene)[0], before.is_dir()) == ("published", True)


def test_base_of_another_minor_version_makes_the_lock_stale(scene: WheelBox) -> None:
    scene.house.wheel("one")
    folder = scene.entry(ENTRY, "one", python=scene.base())
    scene.lock(ENTRY)
    lock = folder / "wheels.lock"
    lock.write_text(lock.read_text().replace(f"# python: {PYTHON}.", "# python: 3.9."))
    told = scene.refused("build", ENTRY).stderr
    assert told.startswith(f"error[lock-stale]: {folder}/wheels.lock is for Python 3.9.")
    assert told.endswith(f"hint: run `envmgr lock {ENTRY}` and commit the result\n")


def test_bases_that_cannot_be_one(scene: WheelBox) -> None:
    scene.house.wheel("one")
    for base, told in (
        ("absent/1.0", "error[unknown-entry]: no catalog has absent/1.0"),
        (BASE, f"error[lock-missing]: {BASE} has no lock"),
    ):
        scene.entry(ENTRY, "one", python=base)
        if base == BASE:
            scene.box.recipe(BASE, [f"python {PYTHON}.*"])
        done = scene.refused("lock", ENTRY).stderr
        assert done.startswith(told), done
        assert f"{ENTRY} stands on it" in done
    scene.box.recipe("hello/1.0", ["hello-prefix"])
    scene.box.ok("lock", "hello/1.0")
    scene.entry(ENTRY, "one", python="hello/1.0")
    assert scene.refused("lock", ENTRY).stderr.startswith(
        f"error[base-without-python]: {ENTRY} cannot stand on hello/1.0"
    )


def test_two_installs_have_one_tree(scene: WheelBox) -> None:
    for name in ("one", "two", "three"):
        scene.house.wheel(
            name,
            files={"nvidia/__init__.py": "", f"{name}_more.py": "x = {1, 'a', None}\n"},
            scripts={name: f"{name}:main"},
        )
    scene.entry(ENTRY, "one", "two", "three", python=scene.base())
    scene.lock(ENTRY)
    trees = []
    for _ in range(2):
        scene.box.ok("build", ENTRY, "--no-publish", "-j", "2")
        root = scene.install(ENTRY)
        trees.append(json.loads((root.parent / f"{root.name}.manifest.json").read_text())["tree"])
        remove_tree(root)
        (root.parent / f"{root.name}.manifest.json").unlink()
    assert trees[0] == trees[1]


@pytest.mark.parametrize("version", ["24.3.1", "22.3.1"])
def test_pip_in_the_entry_says_how_to_add_packages(scene: WheelBox, version: str) -> None:
    """Of the real pip: the second does not read the mark of the install; from Python 3.12 on it starts no more."""
    scene.house.add(*fetch_wheels([Pin("pip", version)], CACHE / "wheels"))
    scene.house.wheel("one")
    scene.entry(ENTRY, "pip", python=scene.base())
    scene.lock(ENTRY)
    scene.box.ok("build", ENTRY)
    for program in ("pip", "python -m pip"):
        for option in ("", "--user "):
            command = f"{program} install {option}--no-index --find-links {scene.house.files} one"
            told = scene.box.shell(f"module load {ENTRY}; {command}")
            assert told.returncode not in (0, 127)
            if program == "pip":
                assert "pip cannot install packages in" in told.stderr
            elif version.startswith("24"):
                assert "This Python belongs to a module" in " ".join(told.stderr.split())
            elif sys.version_info < (3, 12):
                assert told.stderr == "ERROR: Could not find an activated virtualenv (required).\n"
    assert not list(scene.install(ENTRY).rglob("one.py"))
    assert not (scene.box.root / ".local/lib").exists()


def test_two_wheels_with_one_path_of_different_content_are_refused(scene: WheelBox) -> None:
    scene.house.wheel("one", files={"shared/data.py": "x = 1\n", "shared/same.py": ""})
    scene.house.wheel("two", files={"shared/data.py": "x = 2\n", "shared/same.py": ""})
    scene.entry(ENTRY, "one", "two")
    scene.lock(ENTRY)
    told = scene.refused("build", ENTRY).stderr
    assert (
        f"error[wheels-overlap]: two wheels have one path with different content: lib/python{PYTHON}/site-packages/shared/data.py"
        in told
    )
    assert "one-1.0-py3-none-any.whl" in told
    assert "two-1.0-py3-none-any.whl" in told
    assert _nothing_left(scene)


def test_flipped_byte_in_the_cache_is_never_installed(scene: WheelBox) -> None:
    scene.house.wheel("one")
    scene.entry(ENTRY, "one")
    scene.lock(ENTRY)
    scene.box.ok("fetch", ENTRY)
    (file,) = scene.box.prefix.glob("cache/wheels/*/*.whl")
    good = file.read_bytes()
    file.write_bytes(good[:100] + bytes([good[100] ^ 1]) + good[101:])
    scene.box.ok("build", ENTRY)
    assert file.read_bytes() == good


def test_file_of_another_version_than_its_row_is_never_installed(scene: WheelBox) -> None:
    """The sha256 alone finds a file, and only its name says what it is."""
    scene.house.wheel("one")
    lock = scene.entry(ENTRY, "one") / "wheels.lock"
    scene.lock(ENTRY)
    lock.write_text(lock.read_text().replace("one==1.0 ", "one==1.1 "))
    told = scene.refused("build", ENTRY).stderr
    named = f"one-1.0-py3-none-any.whl is no wheel of one 1.1 for Python {PYTHON} and x86_64-manylinux_2_28"
    assert f"error[lock-invalid]: {named}\n" in told
    assert told.endswith(f"hint: run `envmgr lock {ENTRY}`\n")
    assert _nothing_left(scene)


def test_wheel_that_cannot_be_had(scene: WheelBox) -> None:
    """Told, nothing left behind; with a server that is well the same command goes on."""
    scene.house.wheel("one", files={"large.py": "# " + "x" * 5000})
    scene.entry(ENTRY, "one")
    scene.lock(ENTRY)
    with scene.served() as server:
        server.faults["files/one-*"] = Fault("404")
        told = scene.refused("build", ENTRY).stderr
        assert "error[not-found]: " in told, told
        assert _nothing_left(scene)
        server.faults.clear()
        scene.box.ok("build", ENTRY)


def test_disk_full_then_a_rerun(tmp_path: Path, channel: Channel) -> None:
    with small_in(tmp_path, channel) as small:
        scene = make_wheel_box(small)
        small.mount("300m")
        scene.house.rich = False  # else its size is known, and nothing is begun
        scene.house.wheel("one", files={"large.py": "# " + "x" * (60 << 20) + "\n"})
        scene.entry(ENTRY, "one")
        with scene.served():
            small.ok("lock", ENTRY)
            small.ok("fetch", ENTRY)
        small.resize(str(shutil.disk_usage(small.prefix).used + (30 << 20)))
        told = scene.refused("build", ENTRY).stderr
        assert "error[disk-full]: no space left under " in told, told
        assert small.leftovers() == []
        small.resize("300m")
        small.ok("build", ENTRY)
        assert small.current() == 1


def test_worker_that_is_killed_alone_is_told(scene: WheelBox) -> None:
    for name in ("one", "two"):
        scene.house.wheel(name, files={f"{name}_{n}.py": f"x = {n}\n" * 50 for n in range(2000)})
    scene.entry(ENTRY, "one", "two")
    scene.lock(ENTRY)
    process = scene.box.start("build", ENTRY)
    wait_for(lambda: list(scene.box.prefix.glob("store/some/.staging-*/**/one_1.py")), what="the first files")
    for pid, words in scene.box.processes().items():
        if "envmgr.wheels.install_worker" in words:
            os.kill(pid, signal.SIGKILL)
    told = process.communicate(timeout=DEADLINE)[1]
    assert process.returncode == 3, told
    assert "error[worker-died]: the wheels worker was ended by SIGKILL" in told
    assert _nothing_left(scene)


def test_server_that_is_unavailable_twice_and_one_that_tells_no_sizes(scene: WheelBox) -> None:
    scene.house.rich = False
    scene.house.wheel("one")
    scene.entry(ENTRY, "one")
    with scene.served() as server:
        scene.lock(ENTRY)
        scene.box.policies["download_retries"] = 3
        scene.box.write_site()
        server.faults["files/one-*"] = Fault("503-then-ok")
        scene.box.ok("build", ENTRY)
        asked = [r.status for r in server.requests if r.method == "GET" and r.path.startswith("files/one-")]
    assert asked[-3:] == [503, 503, 200]


def test_what_a_mirror_lacks_comes_from_the_index(scene: WheelBox, tmp_path: Path) -> None:
    scene.house.wheel("one")
    scene.house.wheel("two")
    scene.entry(ENTRY, "one", "two")
    scene.lock(ENTRY)
    folder = tmp_path / "folder"
    folder.mkdir()
    (scene.house.files / "one-1.0-py3-none-any.whl").rename(folder / "one-1.0-py3-none-any.whl")
    alone = scene.refused("fetch", ENTRY).stderr
    assert "error[not-found]: cannot fetch " in alone
    scene.index(house={"url": scene.house.simple.as_uri(), "mirrors": [str(folder)]})
    scene.box.ok("fetch", ENTRY)


def test_files_that_were_carried_need_no_index(scene: WheelBox) -> None:
    scene.house.wheel("one")
    scene.entry(ENTRY, "one")
    scene.lock(ENTRY)
    scene.index(house="http://127.0.0.1:9/simple")
    told = scene.refused("build", ENTRY).stderr
    assert "error[no-network]: an index of house does not answer" in told
    assert f"`envmgr fetch {ENTRY} --file FOLDER` here" in told  # as is done next
    assert "http://127.0.0.1:9/simple/one/" in scene.box.ok("fetch", "--dry-run", ENTRY, "--format", "json").stdout
    scene.box.ok("fetch", ENTRY, "--file", str(scene.house.files))
    scene.box.ok("build", ENTRY)


def test_kill_in_an_install_then_a_rerun(scene: WheelBox) -> None:
    """A partial tree is never gone on with."""
    for name in ("one", "two"):
        scene.house.wheel(name, files={f"{name}_{n}.py": f"x = {n}\n" * 50 for n in range(400)})
    scene.entry(ENTRY, "one", "two", python=scene.base())
    scene.box.ok("build", "--no-publish", BASE)
    scene.lock(ENTRY)
    process = scene.box.start("build", ENTRY)
    wait_for(lambda: list(scene.box.prefix.glob("store/some/.staging-*/**/one_1.py")), what="the first files")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_for(lambda: not scene.box.processes(), what="the end of its worker")
    scene.box.ok("build", ENTRY)
    assert scene.box.leftovers() == []
    assert scene.box.shell(f"module load {ENTRY}; python -c 'import one_399, two_399'").returncode == 0


def test_base_that_was_changed_is_not_built_on(scene: WheelBox) -> None:
    scene.house.wheel("one")
    scene.entry(ENTRY, "one", python=scene.base())
    scene.box.ok("build", "--no-publish", BASE)
    scene.lock(ENTRY)
    (base,) = (p for p in scene.box.prefix.glob("store/python/*") if p.is_dir())
    path = base / f"lib/python{PYTHON}/abc.py"
    path.chmod(0o644)
    path.write_text("changed")
    assert "error[install-differs]" in scene.refused("build", ENTRY).stderr


def _state(scene: WheelBox) -> tuple[str, list[str]]:
    data = scene.box.ok("list", ENTRY, "--format", "json").data
    return data["state"], data["notes"]


def _nothing_left(scene: WheelBox) -> bool:
    return scene.box.leftovers() == [] and not list(scene.box.prefix.glob("store/some/*"))


def test_code_for_gpus_is_measured_in_the_install_and_wins_over_the_recipe(scene: WheelBox) -> None:
    """It is in the manifest, and in the gate of the module; a recipe that says otherwise is told so."""
    library = elf(fatbin(["8.0", "9.0", "ptx 9.0"]))
    scene.house.wheel("cudaprog", files={"cudaprog/libown.so": library}, requires=["nvidia-cuda-runtime-cu12"])
    scene.house.wheel("nvidia-cuda-runtime-cu12", "12.1.105")
    requires = {"nvidia_driver": "525.60.13", "compute_capability": ["7.5", "8.0"]}
    wanted = {"python": "system", "requirements": ["cudaprog"], "indexes": ["house"]}
    scene.box.recipe("some/1.0", [], backend="wheels", input=wanted, requires=requires)
    scene.lock("some/1.0")
    done = scene.box.ok("build", "some/1.0")
    facts = json.loads(
        (scene.install("some/1.0").parent / f"{scene.install('some/1.0').name}.manifest.json").read_text()
    )["facts"]
    assert facts["gpu_codes"] == ["8.0", "9.0+PTX"]
    module = (scene.box.prefix / "current/modules/some/1.0.lua").read_text()
    assert 'codes = { "8.0", "9.0+PTX" }' in module
    told = "some/1.0: its binaries have code for 8.0, 9.0+PTX; requires.compute_capability of its recipe says 7.5, 8.0, and"
    assert told in done.stderr
    shown = scene.box.ok("list", "some/1.0", "--format", "json").data
    assert shown["gpu"]["codes"] == ["8.0", "9.0+PTX"]


def test_what_the_python_lacks_is_said_before_a_wheel_is_downloaded(scene: WheelBox) -> None:
    scene.house.wheel("one")
    with scene.served() as server:
        scene.entry(ENTRY, "one", python=scene.base())
        scene.box.ok("lock", ENTRY)
        mirror, scene.box.mirror = scene.box.mirror, ""
        scene.box.write_site()
        server.requests.clear()
        said = scene.refused("build", ENTRY).stderr
        assert "/linux-64/python-" in said
        assert [request.path for request in server.requests if "files/" in request.path] == []
        scene.box.mirror = mirror
        scene.box.write_site()
        scene.box.ok("build", ENTRY)
        assert [request.path for request in server.requests if "files/" in request.path] != []
