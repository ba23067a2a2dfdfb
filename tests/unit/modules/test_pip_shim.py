"""The pip that stands first in PATH: which commands it refuses, and which it leaves to the pip that it is given."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envmgr.modules.pip_shim import render_shims
from envmgr.modules.spec import ModuleSpec, Pip
from envmgr.system.resources import shipped

WAY_OUT = [
    "For Python packages of your own, while this module is loaded:",
    "  python -m venv --system-site-packages ~/venvs/a-1",
    "  ~/venvs/a-1/bin/python -m pip install PACKAGE",
]


def spec(folder: str, minor: str = "3.11") -> ModuleSpec:
    pip = Pip(folder=folder, minor=minor, writes=True)
    return ModuleSpec(
        name="a", version="1", root="/p/store/a/1-00aa11bb", digest="0" * 64, description="a", python=True, pip=pip
    )


def run(
    tmp_path: Path, folder: str, *arguments: str, shell: str = "sh", **env: str
) -> subprocess.CompletedProcess[str]:
    shim = tmp_path / "shim"
    shim.write_text(render_shims([spec(folder)], shipped("modulefiles"))["shims/a/1/pip"])
    return subprocess.run(
        [shell, shim, *arguments], capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin", **env}
    )


@pytest.fixture
def own(tmp_path: Path) -> str:
    folder = tmp_path / "with 'a quote'"
    folder.mkdir()
    program = folder / "pip"
    program.write_text("""#!/bin/sh\nprintf '%s|' "${PIP_REQUIRE_VIRTUALENV-none}" "$@"\n""")
    program.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["install", "x"], ["install"], ["--log", "f", "install", "x"], ["-v", "uninstall", "x"], ["install", "--user", "x"],
        ["install", "--root-user-action=ignore", "x"], ["install", "--prefer-binary", "x"], ["--proxy", "install", "install", "x"],
        ["install", "list"], ["install", "x", "--break-system-packages"], ["install", "x y"], ["install", "--python", "3"],
    ],
)  # fmt: skip
def test_what_changes_packages_is_refused_with_the_way_out(
    tmp_path: Path, own: str, arguments: list[str], shell: str
) -> None:
    done = run(tmp_path, own, *arguments, shell=shell)
    assert (done.returncode, done.stdout, done.stderr.splitlines()[1:]) == (1, "", ["", *WAY_OUT])
    assert done.stderr.startswith("error: pip cannot ")


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["list"], ["show", "install"], ["--version"], ["help", "install"], ["install", "--help"], ["install", "-t", "d", "x"],
        ["install", "--target=d", "x"], ["install", "--prefix", "d", "x"], ["install", "--root=d", "x"], ["install", "--dry-run", "x"],
        ["--python", "own", "install", "x"], ["download", "a b", "*"], ["unknown"], ["search", "install"],
    ],
)  # fmt: skip
def test_all_else_is_done_by_the_pip_of_the_module(tmp_path: Path, own: str, arguments: list[str]) -> None:
    done = run(tmp_path, own, *arguments, PIP_REQUIRE_VIRTUALENV="1")
    assert (done.returncode, done.stdout) == (0, "".join(f"{a}|" for a in ("1", *arguments)))
    ours = run(tmp_path, own, *arguments, PIP_REQUIRE_VIRTUALENV="1", ENVMGR_DEFAULT_PIP_REQUIRE_VIRTUALENV="a/1")
    assert ours.stdout.startswith("none|")


def test_module_without_a_pip_says_so(tmp_path: Path) -> None:
    for folder in ("", str(tmp_path)):
        done = run(tmp_path, folder, "list")
        assert (done.returncode, done.stderr.splitlines()) == (1, ["error: the module a/1 has no pip", "", *WAY_OUT])


@pytest.mark.parametrize(
    ("minor", "names"), [("3.13", ["pip", "pip3", "pip3.13"]), ("3", ["pip", "pip3"]), ("pypy3.10", ["pip", "pip3"])]
)
def test_names_are_those_of_its_python(minor: str, names: list[str]) -> None:
    assert sorted(path.rpartition("/")[2] for path in render_shims([spec("", minor)], shipped("modulefiles"))) == names
