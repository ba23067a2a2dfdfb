from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import envmgr
from tests.helpers.own_wheel import DATA, build_wheel, copy_source, pip
from tests.helpers.places import ROOT
from tests.helpers.waiting import DEADLINE


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_source(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("target")
    pip("install", "--no-deps", "--no-compile", "--target", target, wheel)
    return target


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def test_wheel_is_pure_and_has_the_version_of_the_package(wheel: Path) -> None:
    assert wheel.name == f"envmgr-{envmgr.__version__}-py3-none-any.whl"


def test_wheel_holds_the_package_and_nothing_else(wheel: Path, source: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    info = f"envmgr-{envmgr.__version__}.dist-info/"
    code = {f"envmgr/{name}" for name in files(source / "envmgr")}
    data = {f"envmgr/data/{folder}/{name}" for folder in DATA for name in files(source / folder)}
    assert {n for n in names if not n.startswith(info)} == code | data


def test_wheel_holds_templates_and_recipes_byte_for_byte(installed: Path, source: Path) -> None:
    assert "module.lua.j2" in files(source / "modulefiles")
    for folder in DATA:
        for name in files(source / folder):
            assert (installed / "envmgr/data" / folder / name).read_bytes() == (source / folder / name).read_bytes()


def test_wheel_has_the_entry_point_and_the_licence(wheel: Path) -> None:
    info = f"envmgr-{envmgr.__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"{info}/entry_points.txt").decode() == "[console_scripts]\nenvmgr = envmgr.cli.app:main\n"
        assert archive.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
        metadata = archive.read(f"{info}/METADATA").decode()
    assert re.search(r"^Requires-Python: >=3\.11$", metadata, re.MULTILINE)
    assert re.search(r"^License-Expression: Apache-2\.0$", metadata, re.MULTILINE)


def test_pages_that_the_help_and_messages_name_are_installed(installed: Path, tmp_path: Path) -> None:
    def said(*argv: str) -> str:
        done = subprocess.run(
            [sys.executable, "-P", installed / "bin" / "envmgr", *argv],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE,
        )
        return done.stdout + done.stderr

    for argv in ("build", "--help"), ("site", "--help"), ("check", "--help"), ("sign",):
        pages = re.findall(r"/\S+\.md", said(*argv))
        assert pages, argv
        for page in pages:
            assert Path(page).is_relative_to(installed), page
            assert Path(page).is_file(), page


def test_an_older_python_is_what_pip_names_and_not_one_of_the_dependencies() -> None:
    """pip 21, as of Rocky 9, asks for dependencies before it compares the Python: each is for the Pythons of the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    least = project["requires-python"].removeprefix(">=")
    for each in map(Requirement, project["dependencies"]):
        if each.name.startswith("easybuild-"):
            continue  # for every Python
        assert each.marker is not None, each
        older, newer = ({"python_version": version} for version in ("3.9", least))
        assert (each.marker.evaluate(older), each.marker.evaluate(newer)) == (False, True), each


def test_readme_says_which_python_and_who_builds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    least = project["requires-python"].removeprefix(">=")
    text = (ROOT / "README.md").read_text().partition("## Installation")[2].partition("\n## ")[0]
    assert f"needs Python {least} or later" in text
    assert f"dnf install python{least}" in text
    assert "python3-venv" in text
    assert f"python{least} -m venv " in text
    assert "clone of this repository" in text
    assert "build_user: envmgr" in text


def texts(path: Path) -> list[str]:
    """The texts of a module, without its docstrings."""
    nodes = [*ast.walk(ast.parse(path.read_text()))]
    documented = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    constants = [node for node in nodes if isinstance(node, ast.Constant) and id(node) not in documented]
    return [node.value for node in constants if isinstance(node.value, str)]


def test_no_text_of_the_program_names_a_file_of_the_checkout() -> None:
    """Messages, help, hints, yaml tables, and what nodes get: they are read where only the wheel is."""
    of_checkout = re.compile(
        r"\b(docs|contrib|tests|tools|demo|benchmarks)/\w|\b(README|CONTRIBUTING|CHANGELOG|SECURITY)\.md"
    )
    found = [
        (str(path), text)
        for path in sorted((ROOT / "envmgr").rglob("*.py"))
        for text in texts(path)
        if of_checkout.search(text)
    ]
    for folder in ("envmgr", "nodesetup", "modulefiles"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".yaml", ".sh", ".lua", ".j2", ".in", ".csh", ".fish", ""} and path.is_file():
                lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith(("#", "--"))]
                found += [(str(path), line) for line in lines if of_checkout.search(line)]
    assert found == []


def test_installed_wheel_lists_the_shipped_entries_from_anywhere(installed: Path, source: Path, tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(f"prefix: {tmp_path / 'prefix'}\n")
    shipped = {f"{p.parent.parent.name}/{p.parent.name}" for p in (source / "recipes").glob("*/*/recipe.yaml")}
    done = subprocess.run(
        [sys.executable, "-P", installed / "bin" / "envmgr", "list", "--format", "json"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    listed = json.loads(done.stdout)["entries"]
    assert {e["entry"] for e in listed} == shipped
    assert all(e["shipped"] for e in listed)


def test_installed_wheel_is_what_runs(installed: Path, tmp_path: Path) -> None:
    code = (
        "import envmgr; from envmgr.system.files import shipped; print(envmgr.__file__, shipped('recipes'), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE,
    )
    assert done.stdout.splitlines() == [str(installed / "envmgr/__init__.py"), str(installed / "envmgr/data/recipes")]


def test_wheel_holds_the_shell_and_lua_files_of_modules_byte_for_byte(installed: Path, source: Path) -> None:
    texts = {name for name in files(source / "envmgr") if name.endswith((".sh", ".csh", ".lua", ".yaml"))}
    assert {
        "audit/checks/mount.prefix.sh",
        "audit/checks/mount.yaml",
        "modules/lmod.parse.lua",
        "steps/shell_init.csh",
    } <= texts
    for name in texts:
        assert (installed / "envmgr" / name).read_bytes() == (source / "envmgr" / name).read_bytes()


def test_installed_wheel_reads_its_shell_files(installed: Path, tmp_path: Path) -> None:
    code = "from envmgr.system.run import Runner; print(Runner().run(['echo', 'under the guard']).stdout, end='')"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE,
    )
    assert done.stdout == "under the guard\n"
