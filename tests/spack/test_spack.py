"""A real Spack: environments that envmgr locks and builds with it, and installs that it made itself. `make test-spack SPACK=DIR`."""

from __future__ import annotations

import hashlib
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.helpers.real_spack import TIMEOUT, bring_sources, changed_files, install_tree, spack, spack_line, spack_site
from tests.helpers.sandbox import Sandbox
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.slow

ENTRY, PYTHON = "tools/1.0", "py-six@1.16.0"


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Sandbox]:
    """A site with this Spack, which stays as it was."""
    before = changed_files()
    box = Sandbox(tmp_path, "")
    spack_site(box)
    yield box
    box.clear()
    assert changed_files() == before


def recipe(box: Sandbox, *specs: str, entry: str = ENTRY, **fields: str) -> Path:
    return box.recipe(entry, [], backend="spack", input={"specs": [*specs], **fields})


def locked(box: Sandbox, *specs: str) -> Path:
    folder = recipe(box, *specs)
    box.run("lock", ENTRY, timeout=TIMEOUT)
    bring_sources(box, ENTRY)
    return folder


def test_environment_is_locked_fetched_built_and_loaded(box: Sandbox) -> None:
    folder = recipe(box, "bzip2@1.0.8", PYTHON)
    done = box.run("lock", ENTRY, timeout=TIMEOUT)
    assert (done.code, "  + bzip2 1.0.8 " in done.stdout, "note: it counts on python 3" in done.stdout) == (
        0,
        True,
        True,
    )
    lock = json.loads((folder / "spack.lock").read_text())
    targets = {str(spec["arch"]["target"]) for spec in lock["concrete_specs"].values()}
    assert targets == {"x86_64_v2"}, "the site's cpu_level, not this host"
    assert box.run("lock", "--check", ENTRY).code == 0
    # What is not there is named, and then brought.
    missing = box.run("fetch", ENTRY)
    assert (missing.code, "error[source-missing]: " in missing.stderr) == (3, True)
    mirror = bring_sources(box, ENTRY)
    given = mirror.rename(box.root / "carried")
    box.ok("fetch", ENTRY, "--file", str(given))
    done = box.run("build", ENTRY, timeout=TIMEOUT)
    assert done.code == 0, done.stdout + done.stderr
    (install,) = (path for path in box.prefix.glob("store/tools/*") if path.is_dir())
    index = json.loads((install / ".spack-db/index.json").read_text())["database"]["installs"]
    assert {row["spec"]["name"] for row in index.values() if row["explicit"]} == {"bzip2", "py-six"}
    assert all(row["path"].startswith(f"{install}/") for row in index.values() if "external" not in row["spec"])
    said = box.shell(
        f"""
        module load {ENTRY}
        command -v bzip2 && echo hello | bzip2 | bzip2 -d && python -c 'import six; print(six.__version__, six.__file__)'
        echo $CMAKE_PREFIX_PATH
        """
    ).stdout.splitlines()
    assert said[0].startswith(f"{install}/bzip2/1.0.8-")
    assert (said[1], said[2].split()[0]) == ("hello", "1.16.0")
    assert said[2].split()[1].startswith(f"{install}/py-six/")
    assert all(part.startswith(f"{install}/") for part in said[3].split(":"))
    # Nothing of the places where it was made: the install has the final path from the first file on.
    assert ".staging" not in (install / ".spack-db/index.json").read_text()
    # The same answer, to the byte; and a damaged file is made again.
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert "unchanged" in box.run("lock", ENTRY, timeout=TIMEOUT).stdout
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    (program,) = install.glob("bzip2/*/bin/bzip2")
    program.chmod(0o755)
    program.write_bytes(b"damaged")
    assert box.run("verify").code == 1
    again = box.run("build", "--again", ENTRY, timeout=TIMEOUT)
    assert ": was damaged, and was made again in its place, with a new manifest" in again.stdout, again.stderr
    assert box.run("verify").code == 0
    assert box.shell(f"module load {ENTRY} && bzip2 --help").returncode == 0
    assert box.leftovers() == []


def forge(folder: Path, old: str, new: str) -> None:
    """Change `spack.lock`, and what we recorded of it."""
    text = (folder / "spack.lock").read_text()
    assert old in text
    (folder / "spack.lock").write_text(text.replace(old, new))
    own = (folder / "spack-lock.yml").read_text()
    sha256 = hashlib.sha256(text.replace(old, new).encode()).hexdigest()
    (folder / "spack-lock.yml").write_text(re.sub(r"(?m)^lock: .*$", f"lock: {sha256}", own))


def test_other_spack_other_packages_and_lost_software_are_refused(box: Sandbox) -> None:
    folder = locked(box, "bzip2@1.0.8")
    lock, own = (folder / "spack.lock").read_text(), (folder / "spack-lock.yml").read_text()
    data = json.loads(lock)
    (bzip2,) = (spec for spec in data["concrete_specs"].values() if spec["name"] == "bzip2")
    for old, new, said in (
        (data["spack"].get("commit") or data["spack"]["version"], "0" * 40, "error[spack-version]: "),
        (bzip2["package_hash"], "a" * 52 + "====", "error[spack-version]: "),
        ('"path": "/usr"', '"path": "/nowhere"', "error[external-missing]: "),
    ):
        folder.joinpath("spack.lock").write_text(lock)
        folder.joinpath("spack-lock.yml").write_text(own)
        forge(folder, old, new)
        done = box.run("build", ENTRY, timeout=TIMEOUT)
        assert (done.code, said in done.stderr) == (3, True), done.stderr
        assert box.leftovers() == []
        assert list(box.prefix.glob("store/*/*")) == []


def test_interrupted_build_leaves_nothing(box: Sandbox) -> None:
    locked(box, "bzip2@1.0.8")
    process = box.start("build", ENTRY)
    wait_for(
        lambda: any("bzip2" in log.read_text() for log in box.prefix.glob("var/log/spack/*")), what="a build of bzip2"
    )
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT) == 130
    assert box.leftovers() == []
    assert list(box.prefix.glob("store/*/*")) == []
    assert box.run("build", ENTRY, timeout=TIMEOUT).code == 0


def test_version_of_git_is_refused(box: Sandbox) -> None:
    folder = recipe(box, "gnuconfig@master")
    done = box.run("lock", ENTRY, timeout=TIMEOUT)
    assert done.code == 2
    assert "error[source-unhashed]: Spack has no sha256 for a source of gnuconfig@master\n" in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["recipe.yaml"]


def test_specs_that_contradict_each_other_are_told_in_spacks_words(box: Sandbox) -> None:
    recipe(box, "bzip2@1.0.8 target=x86_64", target="x86_64_v3")
    done = box.run("lock", ENTRY, timeout=TIMEOUT)
    assert (done.code, "error[spack-failed]: `spack concretize` failed\n" in done.stderr) == (3, True)


def test_tree_that_this_spack_installed_is_imported_and_published(box: Sandbox) -> None:
    locked(box, "bzip2@1.0.8", PYTHON)
    folder = box.root / "site-spack"
    tree = install_tree(box, ENTRY, folder)
    box.ok("import", "--from", "spack", str(tree))
    entries = ("bzip2/1.0.8", "py-six/1.16.0")
    box.ok("lock", *entries)
    box.ok("build", *entries)
    said = box.shell("module load bzip2/1.0.8 && command -v bzip2 && echo hello | bzip2 | bzip2 -d").stdout.splitlines()
    assert said[0].startswith(f"{tree}/bzip2/1.0.8-")
    assert said[1] == "hello"
    assert box.ok("check", *entries).code == 0
    # Spack's own environment of a package that runs with others.
    path = box.root / "recipes/py-six/1.16.0/recipe.yaml"
    data = yaml.safe_load(path.read_text())
    data["input"]["command"] = spack_line(folder, "load", "--sh", "py-six")
    path.write_text(json.dumps(data))
    for verb in ("lock", "build"):
        done = box.run(verb, "py-six/1.16.0", timeout=TIMEOUT)
        assert done.code == 0, done.stderr
    said = box.shell("module load py-six/1.16.0 && python -c 'import six; print(six.__file__)'").stdout
    assert said.startswith(f"{tree}/py-six/1.16.0-")
    # A change is found, and then an uninstall.
    (program,) = tree.glob("bzip2/*/bin/bzip2")
    program.chmod(0o755)
    program.write_bytes(program.read_bytes() + b"\n")
    found = box.run("verify", "--format", "json")
    assert (found.code, [f["where"] for f in found.data["findings"]]) == (1, ["bzip2/1.0.8"])
    spack(folder, "uninstall", "--yes-to-all", "--force", "bzip2")
    gone = box.run("check", "bzip2/1.0.8")
    assert (gone.code, "is not" in gone.stdout) == (1, True), gone.stdout
    assert "error[spack-differs]: " in box.run("lock", "bzip2/1.0.8").stderr
