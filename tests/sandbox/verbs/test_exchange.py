"""`envmgr import` and `export` of one entry: other tools' own files become entries that build, and come back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from uv import find_uv_bin

from envmgr.backends.conda.lockfile import read_lock
from envmgr.backends.wheels.lock import read_wheels_lock
from envmgr.system.files import remove_tree
from envmgr.wheels.lockfile import LockedWheels
from tests.helpers.places import ROOT
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.wheel_scene import BASE, WheelBox, make_wheel_box

SPECS = [f"python {PYTHON}.*", "pip"]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[WheelBox]:
    """A Python as an entry, an index in files, and entries of conda packages: alone, and with wheels."""
    box = Sandbox(tmp_path_factory.mktemp("exchange"), str(channel.folder))
    box.write_site()
    made = make_wheel_box(box)
    made.index(house=made.house.simple.as_uri())
    made.house.wheel("einops", "0.7", scripts={"einops-tool": "einops:main"})
    made.house.wheel("on-einops", "1.0", requires=["einops>=0.5"])
    made.base("pip")
    made.conda("sci/1.0", SPECS)
    made.conda("both/1.0", SPECS, "on-einops")
    box.ok("lock", "sci/1.0", "both/1.0")
    yield made
    remove_tree(box.root / ".local")
    box.clear()


def uv(*argv: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [find_uv_bin(), *argv, "--no-config", "--no-cache", "--offline"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def project(scene: WheelBox, folder: Path) -> Path:
    """A project that uv has locked, with an extra."""
    folder.mkdir()
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "proj"\nversion = "2.1"\nrequires-python = ">={PYTHON}"\ndependencies = ["on-einops"]\n'
        '[project.optional-dependencies]\nplots = ["einops"]\n'
    )
    uv("lock", "--python", sys.executable, "--default-index", scene.house.simple.as_uri(), folder=folder)
    return folder / "uv.lock"


def folder_of(scene: WheelBox, entry: str) -> Path:
    return scene.box.root / "recipes" / entry


def lock_of(scene: WheelBox, entry: str) -> LockedWheels:
    return read_wheels_lock(folder_of(scene, entry), ())[0].wheels


def test_uv_lock_becomes_an_entry_with_exactly_its_files(scene: WheelBox, tmp_path: Path) -> None:
    lock = project(scene, tmp_path / "proj")
    done = scene.box.ok("import", str(lock), "--python", BASE)
    assert f"exactly 2 packages of {lock}; `envmgr build proj/2.1`" in done.stdout
    assert "the extra `plots` of the project" in done.stdout
    assert all(row.sha256 in lock.read_text() for row in lock_of(scene, "proj/2.1").rows)
    assert scene.house.simple.as_uri() not in "".join(p.read_text() for p in folder_of(scene, "proj/2.1").iterdir())
    scene.box.ok("build", "proj/2.1")
    loaded = scene.box.shell("module load proj/2.1 && python -c 'import on_einops, einops; print(einops.VERSION)'")
    assert (loaded.stdout, loaded.stderr) == ("0.7\n", "")


def test_lock_of_wheels_goes_out_as_files_that_uv_takes_and_comes_back(scene: WheelBox, tmp_path: Path) -> None:
    scene.entry("wheels/1.0", "on-einops", python=BASE)
    scene.box.ok("lock", "wheels/1.0")
    for to, name in (("requirements", "requirements.txt"), ("pylock", "pylock.toml")):
        scene.box.ok("export", "wheels/1.0", "--to", to, "-o", str(tmp_path / name))
        hashed = ["--require-hashes", "--no-index", "--find-links", scene.house.files] if to == "requirements" else []
        place: list[str | Path] = ["--python", sys.executable, "--target", tmp_path / "to"]
        done = uv("pip", "install", "--dry-run", *hashed, "-r", name, *place, folder=tmp_path)
        assert {"+ einops==0.7", "+ on-einops==1.0"} <= {line.strip() for line in done.stderr.splitlines()}
    shutil.copy(folder_of(scene, "wheels/1.0") / "wheels.lock", tmp_path)
    for file, entry in (("pylock.toml", "a/1.0"), ("requirements.txt", "b/1.0"), ("wheels.lock", "c/1.0")):
        done = scene.box.ok("import", str(tmp_path / file), "--as", entry, "--python", BASE)
        assert f"exactly 2 packages of {tmp_path / file}; `envmgr build {entry}`" in done.stdout
        assert lock_of(scene, entry).identity() == lock_of(scene, "wheels/1.0").identity()
    scene.box.ok("build", "c/1.0")
    (tmp_path / "requirements.txt").write_text(f"einops==0.7 --hash=sha256:{'0' * 64} --hash=sha256:{'1' * 64}\n")
    done = scene.box.ok("import", str(tmp_path / "requirements.txt"), "--as", "d/1.0", "--python", BASE)
    assert done.stdout == (
        f"wrote {folder_of(scene, 'd/1.0')}: recipe.yaml\n"
        "  without a lock: einops==0.7 is not one version with one sum: the lock gets that of the index\n"
        "  `envmgr lock d/1.0` finds its packages\n"
    )


@pytest.mark.parametrize("to", ["conda-lock", "pixi", "explicit"])
@pytest.mark.parametrize("entry", ["sci/1.0", "both/1.0"])
def test_lock_of_conda_goes_out_and_comes_back_exactly(scene: WheelBox, tmp_path: Path, to: str, entry: str) -> None:
    new, file = f"{to}-{entry.partition('/')[0]}/1.0", tmp_path / "file"
    done = scene.box.ok("export", entry, "--to", to, "-o", str(file))
    dropped = entry == "both/1.0" and to == "explicit"
    count = scene.box.ok("export", entry, "--to", to, "--dry-run", "--format", "json").data["packages"]
    assert ("not in it: einops 0.7: a wheel" in done.stderr) == dropped
    done = scene.box.ok("import", str(file), "--as", new, "--format", "json")
    assert [(each["entry"], each["exact"], each["lacks"]) for each in done.data["entries"]] == [(new, True, "")]
    scene.box.ok("lock", "--check", new)
    assert any(
        row.startswith("python ")
        for row in yaml.safe_load((folder_of(scene, new) / "recipe.yaml").read_text())["input"]["specs"]
    )
    own, back = (read_lock(folder_of(scene, each))[0] for each in (entry, new))
    assert count == len(back.packages) + len(back.added.rows if back.added else ())
    assert [(each.url, each.sha256) for each in own.packages] == [(each.url, each.sha256) for each in back.packages]
    if to != "explicit":  # it says nothing of needs
        assert own.identity() == back.identity()


def test_imported_conda_lock_is_built(scene: WheelBox, tmp_path: Path) -> None:
    scene.box.ok("export", "both/1.0", "--to", "conda-lock", "-o", str(tmp_path / "conda-lock.yml"))
    scene.box.ok("import", str(tmp_path / "conda-lock.yml"), "--as", "built/1.0")
    scene.box.ok("build", "built/1.0")
    loaded = scene.box.shell("module load built/1.0 && python -c 'import on_einops; print(on_einops.VERSION)'")
    assert (loaded.stdout, loaded.stderr) == ("1.0\n", "")


def test_environment_becomes_a_recipe_that_locks(scene: WheelBox, tmp_path: Path) -> None:
    file = tmp_path / "environment.yml"
    file.write_text(
        f"name: plots\nchannels: [standin]\ndependencies: [python={PYTHON}, pip, {{pip: [einops]}}]\nprefix: /x\n"
    )
    done = scene.box.ok("import", str(file), "--dry-run")
    assert not folder_of(scene, "plots").exists()
    done = scene.box.ok("import", str(file))
    assert done.stdout == (
        f"wrote {folder_of(scene, 'plots/1.0')}: recipe.yaml\n"
        "  `envmgr lock plots/1.0` finds its packages\n"
        "\nnot carried over:\n  4  prefix:  it is not of the recipe's input\n"
    )
    recipe = folder_of(scene, "plots/1.0") / "recipe.yaml"
    recipe.write_text(recipe.read_text() + "  indexes: [house]\n")
    assert "einops" in scene.box.ok("lock", "plots/1.0").stdout


def test_lock_without_sums_becomes_pins_that_lock_to_the_same(scene: WheelBox, tmp_path: Path) -> None:
    scene.box.ok("export", "sci/1.0", "--to", "explicit", "-o", str(tmp_path / "list.txt"))
    text = "\n".join(line.partition("#sha256")[0] for line in (tmp_path / "list.txt").read_text().splitlines())
    (tmp_path / "list.txt").write_text(text.replace("# platform", "#platform"))
    done = scene.box.ok("import", str(tmp_path / "list.txt"), "--as", "pins/1.0")
    assert "without a lock: there is no sha256 of " in done.stdout
    scene.box.ok("lock", "pins/1.0")
    own, back = (read_lock(folder_of(scene, each))[0] for each in ("sci/1.0", "pins/1.0"))
    assert own.identity() == back.identity()


def test_lock_that_lacks_a_package_is_not_kept(scene: WheelBox, tmp_path: Path) -> None:
    document = yaml.safe_load((ROOT / "recipes/python/3.12/conda-lock.yml").read_text())
    document["package"] = [each for each in document["package"] if each["name"] != "openssl"]
    (tmp_path / "conda-lock.yml").write_text(json.dumps(document))
    done = scene.box.ok(
        "import", str(tmp_path / "conda-lock.yml"), "--from", "conda-lock", "--as", "cut/1.0", "--format", "json"
    )
    (entry,) = done.data["entries"]
    assert (entry["exact"], entry["files"]) == (False, ["recipe.yaml"])
    assert "openssl" in entry["lacks"]


def test_easystack_becomes_an_entry_for_each_easyconfig(scene: WheelBox, tmp_path: Path) -> None:
    (tmp_path / "stack.yml").write_text("easyconfigs: [Toy-1.0.eb, Toy-2.0-GCC-12.3.0.eb]\n")
    assert scene.box.run("import", str(tmp_path / "stack.yml"), "--as", "a/1").code == 2
    data = scene.box.ok("import", str(tmp_path / "stack.yml"), "--format", "json").data
    assert [each["entry"] for each in data["entries"]] == ["toy/1.0", "toy/2.0-GCC-12.3.0"]
    assert scene.box.ok("list", "toy/1.0").code == 0
    done = scene.box.run("import", str(tmp_path / "stack.yml"))
    assert (done.code, "hint: take it out of the file, or remove it first" in done.stderr) == (2, True)


def test_python_that_a_file_wants_is_asked_for_and_told_where_there_is_none(scene: WheelBox, tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    for wanted, faults in (
        (">=3.99", ["the file wants Python >=3.99"]),
        ("3.x", ["the file wants Python 3.x"]),
        ("", []),
    ):
        line = f'requires-python = "{wanted}"\n' if wanted else ""
        file.write_text(f'[project]\nname = "wants"\nversion = "1"\n{line}dependencies = ["einops"]\n')
        (entry,) = scene.box.ok("import", str(file), "--dry-run", "--format", "json").data["entries"]
        assert entry["faults"] == faults


def test_bad_days_of_import_say_what_to_do_and_write_nothing(scene: WheelBox, tmp_path: Path) -> None:
    box, file = scene.box, tmp_path / "requirements.txt"
    file.write_text("six\n")
    before = sorted(str(p) for p in (box.root / "recipes").rglob("*"))
    said = {
        "no name": box.run("import", str(file)),
        "taken": box.run("import", str(file), "--as", "sci/1.0"),
        "shipped": box.run("import", str(file), "--as", "python/3.12"),
        "no entry": box.run("import", str(file), "--as", "six"),
        "of users": box.run("import", str(file), "--as", "user/1.0"),
        "case": box.run("import", str(file), "--as", "Sci/2.0"),
        "no python": box.run("import", str(file), "--as", "a/1", "--python", "nopy/1"),
        "missing": box.run("import", "no-such-file", "--as", "a/1"),
    }
    file.write_text("-e .\n")
    said["nothing"] = box.run("import", str(file), "--as", "a/1")
    found = {name: done.stderr.partition("]")[0].removeprefix("error[") for name, done in said.items()}
    assert found == {
        "no name": "entry-missing",
        "taken": "entry-exists",
        "shipped": "entry-exists",
        "no entry": "entry-syntax",
        "of users": "entry-clash",
        "case": "entry-clash",
        "no python": "unknown-entry",
        "missing": "file-missing",
        "nothing": "import-empty",
    }
    assert {done.code for done in said.values()} == {2}
    assert sorted(str(p) for p in (box.root / "recipes").rglob("*")) == before


def test_bad_days_of_export(scene: WheelBox) -> None:
    box = scene.box
    for argv, reference in (
        (("export", "--to", "pixi"), "entry-missing"),
        (("export", "sci/1.0", "both/1.0", "--to", "pixi"), "entry-missing"),
        (("export", "nobody/1.0", "--to", "pixi"), "unknown-entry"),
        (("export", "sci/1.0", "--to", "requirements"), "export-impossible"),
        (("export", "sci/1.0", "--to", "pixy"), "unknown-exchange"),
    ):
        done = box.run(*argv)
        assert (done.code, done.stderr.partition("]")[0]) == (2, f"error[{reference}"), done.stderr
    done = box.run("export", "sci/1.0", "--to", "nothing")
    assert "conda-lock, " in done.stderr
    assert "reframe" in done.stderr
    done = box.run("export", "sci/1.0", "--to", "pixi", "--nodes", "c1")
    assert (done.code, done.stderr.partition(":")[0]) == (2, "error[export-impossible]")
