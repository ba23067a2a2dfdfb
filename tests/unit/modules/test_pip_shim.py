"""The pip that stands first in PATH: which commands it refuses, and which it leaves to the pip that it is given."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from envmgr.modules.render import render_shims
from envmgr.modules.spec import ModuleSpec, Pip
from envmgr.system.files import shipped

WAY_OUT = [
    "For Python packages of your own:",
    "  envmgr user create NAME --on a/1 PACKAGE",
    "Without envmgr, until the cluster removes this install, while this module is loaded:",
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
    "arguments", [["install", "x"], ["--log", "f", "install", "x"], ["-v", "uninstall", "x"], ["install", "x y"]]
)
def test_what_changes_packages_is_refused_with_the_way_out(
    tmp_path: Path, own: str, arguments: list[str], shell: str
) -> None:
    done = run(tmp_path, own, *arguments, shell=shell)
    assert (done.returncode, done.stdout, done.stderr.splitlines()[1:]) == (1, "", ["", *WAY_OUT])
    assert done.stderr.startswith("error: pip cannot ")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["list"],
        ["help", "install"],
        ["install", "-t", "d", "x"],
        ["--python", "own", "install", "x"],
        ["download", "a b", "*"],
        ["unknown"],
    ],
)
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


@pytest.mark.parametrize(
    "line",
    [
        "--log list install x",
        "--proxy show --log list install x",
        "install --log -t x",
        "install x -c --target d",
        "install x --constraint -t d",
        "install --prefix= x",
        "install --root= x",
        "install --root / x",
        "install --target= x",
        "install -t {home}/lib x",
        "install -qt{home}/lib x",
        "install -t d --target {home} x",
        "install --prefix {home}/../1-xx/. x",
        "install --root=/.. x",
        "install -r -h",
        "install -e --help",
        "install --report --dry-run x",
        "install --new-option -t d x",
        "install --new-option --help x",
        "--new-flag install -t d x",
        "--new-option list install x",
        "install -- -t d x",
        "install --pre d x",
        "-- install x",
        "install -Z -t x",
        "uninstall -t d x",
        "uninstall --root d x",
        "-qv install -Uq x",
        "install --cert -t x",
        "--python {home}/bin/python install x",
        "--python {home} install x",
        "--python={home}/bin/python uninstall x",
        "--python link install x",
        "--pyth link install x",
        "--python {other}/bin/python install x",
        "--isolated install x",
        "install --user x",
        "--log config install x",
    ],
)
def test_whatever_stands_around_it_a_change_of_the_module_is_refused(tmp_path: Path, line: str) -> None:
    done = run_in_store(tmp_path, line)
    assert (done.returncode, done.stdout, done.stderr.splitlines()[1:]) == (1, "", ["", *WAY_OUT])


@pytest.mark.parametrize(
    "line",
    [
        "install -qt d x",
        "install -Uqtd x",
        "install --targ d x",
        "install --tar=d x",
        "install --prefi d x",
        "install --root d x",
        "install -t {home}/lib --target d x",
        "install --dry x",
        "install -qh",
        "install --he",
        "install --log list -t d x",
        "--log list list",
        "--log install show x",
        "install -r f -t d",
        "install --no-deps -t d x",
        "--python venv install x",
        "--python venv/bin/python install x",
        "--python=venv uninstall x",
        "--log f --python venv config --site set a.b c",
        "--python nowhere install x",
        "config list",
        "config --site list",
        "config --site get a.b",
        "config set a.b c",
        "config --user set a.b c",
        "config --global unset a.b",
        "download -d d x",
        "list --new-option install",
        "--new-flag list",
    ],
)
def test_what_goes_elsewhere_is_done(tmp_path: Path, line: str) -> None:
    done = run_in_store(tmp_path, line)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("env", "line", "code"),
    [
        ({"PIP_TARGET": "d"}, "install x", 0),
        ({"PIP_PREFIX": "d"}, "install x", 0),
        ({"PIP_ROOT": "d"}, "install x", 0),
        ({"PIP_DRY_RUN": "1"}, "install x", 0),
        ({"PIP_PYTHON": "venv"}, "install x", 0),
        ({"PIP_TARGET": ""}, "install x", 1),
        ({"PIP_ROOT": "/"}, "install x", 1),
        ({"PIP_DRY_RUN": "0"}, "install x", 1),
        ({"PIP_TARGET": "d"}, "install --target= x", 1),
        ({"PIP_TARGET": "d"}, "--isolated install x", 1),
        ({"PIP_TARGET": "{home}"}, "install x", 1),
        ({"PIP_TARGET": "{home}"}, "install -t d x", 0),
        ({"PIP_PYTHON": "{home}"}, "install x", 1),
        ({"PIP_TARGET": "d"}, "uninstall x", 1),
        ({"PIP_SITE": "1"}, "config set a.b c", 1),
    ],
)
def test_variables_of_pip_count_as_its_options(tmp_path: Path, env: dict[str, str], line: str, code: int) -> None:
    assert run_in_store(tmp_path, line, **env).returncode == code


@pytest.mark.parametrize(
    "line",
    [
        "config --site set a.b c",
        "config --site edit",
        "config unset --site a.b",
        "config --si set a.b c",
        "config --editor set --site edit",
    ],
)
def test_settings_of_the_install_are_not_changed(tmp_path: Path, line: str) -> None:
    done = run_in_store(tmp_path, line)
    action = next(word for word in reversed(line.split()) if word in ("set", "edit", "unset"))
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (
        1,
        "",
        [
            "error: pip cannot change the settings of the module a/1: all users share it, and it never changes",
            "",
            f"hint: for settings of your own run `pip config --user {action} …`",
        ],
    )


def test_settings_go_to_the_install_where_it_has_some(tmp_path: Path) -> None:
    """pip takes them for what `config set` means, then."""
    assert run_in_store(tmp_path, "config set a.b c").returncode == 0
    (tmp_path / "p/store/a/1-xx/pip.conf").touch()
    assert run_in_store(tmp_path, "config set a.b c").returncode == 1
    assert run_in_store(tmp_path, "config --user set a.b c").returncode == 0


def test_a_prefix_elsewhere_takes_nothing_out_of_the_module(tmp_path: Path) -> None:
    """pip uninstalls another version that it finds in the module, if it may; root may."""
    for line, wanted in (
        ("install --prefix d x", "1"),
        ("install --root d x", "1"),
        ("install -t d x", ""),
        ("list", ""),
    ):
        done = run_in_store(tmp_path, line)
        assert done.stdout.splitlines()[-1] == (wanted if os.access(tmp_path / "p/store/a/1-xx", os.W_OK) else "")


def run_in_store(tmp_path: Path, line: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The shim of an install `p/store/a/1-xx`, whose pip prints what it was given, in a folder with an environment `venv`."""
    home, other = tmp_path / "p/store/a/1-xx", tmp_path / "p/store/b/2-yy"
    work = tmp_path / "work"
    for folder in (home / "bin", other / "bin", work / "venv/bin"):
        folder.mkdir(parents=True, exist_ok=True)
    for folder in (home, other):
        (folder / "bin/python").touch()
    pip = home / "bin/pip"
    pip.write_text("""#!/bin/sh\nprintf '%s|' "$@"\necho\necho "${PIP_IGNORE_INSTALLED-}"\n""")
    pip.chmod(0o755)
    if not (work / "link").is_symlink():
        (work / "link").symlink_to(home / "bin/python")
        (work / "venv/bin/python").symlink_to(home / "bin/python")
        (work / "venv/pyvenv.cfg").touch()
    shim = tmp_path / "shim"
    shim.write_text(render_shims([spec(str(home / "bin"))], shipped("modulefiles"))["shims/a/1/pip"])
    words = [word.format(home=home, other=other) for word in line.split()]
    variables = {name: value.format(home=home) for name, value in env.items()}
    return subprocess.run(
        ["sh", shim, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=work,
        env={"PATH": "/usr/bin:/bin", **variables},
    )
