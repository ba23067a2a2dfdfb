"""What a kernel.json says: names that stay, and values as Jupyter reads them."""

from __future__ import annotations

import string
from itertools import product

import pytest

from envmgr.modules.kernels import kernel_env, kernel_name
from envmgr.modules.spec import EnvOp, ModuleSpec, Pip
from envmgr.modules.statements import ModulePolicies


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ("pytorch/2.1-cuda11.8", "pytorch-2.1-cuda11.8"),
        ("jupyter/2026.11", "jupyter-2026.11"),
        ("scipy-stack/2023b", "scipy-stack-2023b"),
        ("a-b/1", "a-b-1"),
        ("a/b-1", "a-b-1-"),
        ("gtk-3/1.0", "gtk-3-1.0-"),
        ("R/4.3", "r-4.3-"),
        ("py+x/1.0", "py-x-1.0-"),
    ],
)
def test_name_is_the_entrys_in_letters_that_jupyter_takes(entry: str, name: str) -> None:
    found = kernel_name(entry)
    assert found.startswith(name)
    assert (found == name) is not name.endswith("-")


def test_no_two_entries_have_one_name() -> None:
    parts = ["a", "A", "1", "a-1", "a-b", "1-a", "a+1", "a.1", "a_1"]
    entries = [f"{name}/{version}" for name, version in product(parts, parts)]
    assert len({kernel_name(entry) for entry in entries}) == len(entries)
    assert all(set(kernel_name(entry)) <= {*string.ascii_lowercase, *string.digits, *"-._"} for entry in entries)


def values(*ops: EnvOp, **more: object) -> dict[str, str]:
    spec = ModuleSpec(
        name="a", version="1", root="/sw/store/a/1-0", digest="0" * 64, description="", environment=ops, **more
    )  # type: ignore[arg-type]
    env = kernel_env([spec], ModulePolicies(), 7)
    assert [env.pop(name) for name in ("A_ROOT", "ENVMGR_A_DIGEST", "ENVMGR_GENERATION")] == [
        "/sw/store/a/1-0",
        "0" * 64,
        "7",
    ]
    return env


def op(kind: str, name: str, value: str = "", **more: object) -> EnvOp:
    return EnvOp(kind=kind, name=name, value=value, **more)  # type: ignore[arg-type]


def test_lists_are_in_the_order_of_the_module_and_path_ends_with_jupyters_own() -> None:
    env = values(
        op("prepend", "PATH", "/a"), op("prepend", "PATH", "/b:/c"), op("append", "PATH", "/z"),
        op("prepend", "CPATH", "/1"), op("append", "CPATH", "/2"), op("append", "MANPATH", "/m"),
        op("prepend", "FLAGS", "-a", separator=" "), op("prepend", "FLAGS", "-b", separator=" "), op("append", "FLAGS", "-z", separator=" "),
    )  # fmt: skip
    assert env == {"PATH": "/b:/c:/a:${PATH}:/z", "CPATH": "/1:/2", "MANPATH": ":/m", "FLAGS": "-b -a -z"}


def test_values_come_out_of_jupyters_template_as_the_module_sets_them() -> None:
    words = ["$", "$$", "$HOME", "$PATH", "a b", "'", '"', "%s", "x"]  # no module sets a brace
    for one, two in product(words, words):
        text = values(op("set", "X", one + two))["X"]
        assert string.Template(text).safe_substitute({"HOME": "/home/al"}) == one + two
    env = values(op("set", "X", "${HOME}/a$$b", at_load=True), op("set-default", "Y", "y"), op("set-default", "X", "n"))
    assert env == {"PATH": "${PATH}", "X": "${HOME}/a$$b", "Y": "y"}


def test_what_is_unset_cannot_be_said_but_is_not_set_either() -> None:
    assert values(op("set", "X", "1"), op("unset", "X"), op("unset", "HOST")) == {"PATH": "${PATH}"}


def test_python_has_the_policy_and_the_shim_of_its_pip() -> None:
    pip = Pip(folder="/sw/a/bin", minor="3.11", writes=True)
    env = values(op("prepend", "PATH", "/sw/a/bin"), python=True, pip=pip)
    assert env == {
        "PATH": "/sw/generations/0007/shims/a/1:/sw/a/bin:${PATH}",
        "PYTHONNOUSERSITE": "1",
        "PIP_REQUIRE_VIRTUALENV": "1",
    }
