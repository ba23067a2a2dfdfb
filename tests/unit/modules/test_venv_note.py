"""What a module with a Python says in a shell with an environment of the user's own, through real Lmod."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.lmod_shell import Tree, make_tree, spec

OWN = "/home/alice/my env"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return make_tree(tmp_path, spec("app/1", python=True), spec("lib/1"))


def activated(name: str) -> dict[str, str]:
    return {name: OWN, "PATH": f"{OWN}/bin:/usr/bin:/bin"}


@pytest.mark.parametrize("name", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_module_says_that_it_hides_an_environment(tree: Tree, name: str) -> None:
    """`activate`, then `module load`: the packages were gone, and nothing said why."""
    done = tree.shell("module load app; echo $?", **activated(name))
    assert done.stdout == "0\n"
    assert " ".join(done.stderr.split()) == f"Note: the Python of app/1 hides the environment {OWN}: activate it again."


@pytest.mark.parametrize(
    ("script", "env"),
    [
        ("module load lib", activated("VIRTUAL_ENV")),  # it has no Python
        ("module load app", {}),
        ("module load app", {"VIRTUAL_ENV": OWN}),  # left behind by a shell that was left: not in PATH
        ("module show app >/dev/null 2>&1; module avail >/dev/null 2>&1", activated("VIRTUAL_ENV")),
        ("module -q load app", activated("VIRTUAL_ENV")),
    ],
)
def test_nothing_is_said_where_nothing_is_hidden(tree: Tree, script: str, env: dict[str, str]) -> None:
    assert tree.shell(script, **env).stderr == ""
