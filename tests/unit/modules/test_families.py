"""Families: which module is of which, and what real Lmod does with the modules of such entries."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envmgr.modules.families import Clash, Families, Member, find_clashes, find_families
from envmgr.modules.spec import ModuleSpec
from tests.helpers.family_graphs import faults, play, random_entries, random_session
from tests.helpers.lmod_shell import Tree, make_tree, op, spec

# -- which ---------------------------------------------------------------------------------------------------------------

TOOL = Member(None, python=False, depends=())
PYTHON = Member(None, python=True, depends=())


def member(*depends: str, named: tuple[str, ...] | None = None, python: bool = True) -> Member:
    return Member(named, python, depends)


@pytest.mark.parametrize(
    ("members", "own"),
    [
        ({"tool": TOOL}, {"tool": ()}),
        ({"sci": PYTHON, "other": PYTHON}, {"sci": ("python",), "other": ("python",)}),
        ({"sci": member(named=())}, {"sci": ()}),
        ({"sci": member(named=("lab", "python"))}, {"sci": ("lab", "python")}),
        ({"mpich": member(named=("mpi",), python=False)}, {"mpich": ("mpi",)}),
        ({"sci": PYTHON, "app": member("sci")}, {"sci": ("python",), "app": ()}),
        (
            {"sci": PYTHON, "way": member("sci", python=False), "app": member("way")},
            {"sci": ("python",), "way": (), "app": ()},
        ),
        ({"sci": member(named=()), "app": member("sci")}, {"sci": (), "app": ()}),
        ({"tool": TOOL, "app": member("tool")}, {"tool": (), "app": ("python",)}),
        ({"env": member(named=("python",), python=False), "app": member("env")}, {"env": ("python",), "app": ()}),
        ({"sci": PYTHON, "app": member("sci", named=("lab", "python"))}, {"sci": ("python",), "app": ("lab",)}),
        ({"a": member(named=("mpi",)), "b": member("a", named=("mpi", "x"))}, {"a": ("mpi",), "b": ("x",)}),
        (
            {"sci": PYTHON, "other": PYTHON, "lab": member("sci", "other", python=False)},
            {"sci": (), "other": (), "lab": ()},
        ),
        (
            {"sci": PYTHON, "conda": member(named=("python",)), "lab": member("sci", "conda", python=False)},
            {"sci": (), "conda": ("python",), "lab": ()},
        ),
        ({"app": member("gone")}, {"app": ("python",)}),
        ({"a": member("b"), "b": member("a")}, {"a": (), "b": ()}),
    ],
    ids=[
        "no Python",
        "two Pythons",
        "stacks",
        "named",
        "named without a Python",
        "on a Python",
        "on a Python by another",
        "on a Python that stacks",
        "on a tool",
        "on a family without a Python",
        "forced",
        "forced by name",
        "two Pythons under one entry",
        "a Python and a named one under one entry",
        "dependency that is not there",
        "circle",
    ],
)
def test_families_of_an_entry(members: dict[str, Member], own: dict[str, tuple[str, ...]]) -> None:
    found = find_families(members)
    assert {entry: families.own for entry, families in found.items()} == own
    assert find_families(dict(reversed(members.items()))) == found


def test_load_replaces_what_its_dependencies_replace() -> None:
    members = {
        "mpich": member(named=("mpi",), python=False),
        "sci": PYTHON,
        "app": member("sci", "mpich", named=("lab",)),
    }
    assert find_families(members)["app"] == Families(("lab",), ("lab", "mpi", "python"))


@pytest.mark.parametrize(
    ("members", "clashes"),
    [
        ({"sci/1": PYTHON, "other/1": PYTHON, "app/1": member("sci/1")}, []),
        (
            {"sci/1": PYTHON, "app/1": member("sci/1", named=("python",)), "top/1": member("app/1", python=False)},
            [Clash("app/1", "python", ("app/1", "sci/1"), certain=True)],
        ),
        (
            {"a/1": member(named=("mpi",)), "b/1": member(named=("mpi",)), "c/1": member("a/1", "b/1", named=())},
            [Clash("c/1", "mpi", ("a/1", "b/1"), certain=True)],
        ),
        (
            {"sci/1": PYTHON, "other/1": PYTHON, "lab/1": member("sci/1", "other/1", python=False)},
            [Clash("lab/1", "python", ("other/1", "sci/1"), certain=False)],
        ),
        (
            {"app/1": TOOL, "app/2": member("app/1", python=False)},
            [Clash("app/2", "", ("app/1", "app/2"), certain=True)],
        ),
        (
            {
                "python/1": member(named=("python",)),
                "python/2": member(named=("python",)),
                "a/1": member("python/1", "python/2"),
            },
            [Clash("a/1", "", ("python/1", "python/2"), certain=True)],
        ),
    ],
    ids=["none", "forced", "two of a family", "two Pythons", "two versions", "two versions of a family"],
)
def test_clashes_of_recipes(members: dict[str, Member], clashes: list[Clash]) -> None:
    assert find_clashes(members) == clashes


# -- in real Lmod --------------------------------------------------------------------------------------------------------


def environment(entry: str, *depends: str, families: tuple[str, ...] | None = None) -> ModuleSpec:
    """An entry with a Python of its own."""
    return spec(
        entry, op("prepend", "PATH", f"/store/{entry}/bin"), own_python=True, depends=depends, families=families
    )


def pythons(tree: Tree, script: str) -> tuple[list[str], str, list[str]]:
    """What is loaded after `script`, what Lmod said, and the elements of PATH that are ours, in order."""
    done = tree.shell(f"{script}; echo $? $LOADEDMODULES; echo $PATH")
    loaded, path = done.stdout.splitlines()
    said = " ".join(done.stderr.split())
    return loaded.split(), said, [p.split("/")[2] for p in path.split(":") if p.startswith("/store")]


@pytest.mark.parametrize("line", ["module load sci other", "module load sci; module load other"])
def test_second_python_replaces_the_first_and_lmod_says_so(tmp_path: Path, line: str) -> None:
    tree = make_tree(tmp_path, environment("sci/1"), environment("other/1"))
    replaced = 'Lmod is automatically replacing "sci/1" with "other/1".'
    assert pythons(tree, line) == (["0", "other/1"], replaced, ["other"])


def test_entries_that_stack_are_loaded_together(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, environment("sci/1", families=()), environment("other/1"))
    assert pythons(tree, "module load sci other") == (["0", "sci/1:other/1"], "", ["other", "sci"])


def test_member_of_several_families_replaces_a_member_of_each(tmp_path: Path) -> None:
    one, two = environment("mpich/4", families=("mpi",)), environment("gcc/13", families=("compiler",))
    tree = make_tree(tmp_path, one, two, environment("suite/1", families=("compiler", "mpi")), environment("sci/1"))
    loaded, said, path = pythons(tree, "module load mpich gcc sci; module load suite")
    assert (loaded, path) == (["0", "sci/1:suite/1"], ["suite", "sci"])
    assert sorted(re.findall(r'replacing "([^"]+)" with "suite/1"', said)) == ["gcc/13", "mpich/4"]


def test_entry_on_a_python_is_loaded_with_it_and_replaces_another(tmp_path: Path) -> None:
    """Loaded twice, after a swap of what it depends on, and unloaded."""
    tree = make_tree(
        tmp_path,
        environment("python/3.10"),
        environment("python/3.11"),
        environment("app/1", "python/3.10"),
        environment("sci/1"),
    )
    replaced = 'Lmod is automatically replacing "sci/1" with "python/3.10".'
    assert pythons(tree, "module load sci; module load app") == (
        ["0", "python/3.10:app/1"],
        replaced,
        ["app", "python"],
    )
    both = ["0", "python/3.10:app/1"], "", ["app", "python"]
    assert pythons(tree, "module load app app; module load app") == both
    swapped, said, _ = pythons(tree, "module load app; module swap python/3.10 python/3.11")
    assert swapped == ["0", "app/1:python/3.11"]
    assert "python/3.10 => python/3.11" in said
    back, _, path = pythons(tree, "module load app; module load python/3.11; module load app")
    assert (back, path) == (["0", "python/3.10:app/1"], ["app", "python"])
    gone, said, path = pythons(tree, "module load app; module load sci; module unload app")
    assert (gone, path) == (["0", "sci/1"], ["sci"])
    assert "dependent module(s) are not currently loaded: python/3.10 (required by: app/1)" in said


def test_family_that_a_recipe_forces_on_an_entry_is_left_to_its_dependency(tmp_path: Path) -> None:
    """Both lines in one module would leave both loaded, or make Lmod load them in turn without an end."""
    tree = make_tree(tmp_path, environment("python/3.10"), environment("app/1", "python/3.10", families=("python",)))
    assert pythons(tree, "module load app") == (["0", "python/3.10:app/1"], "", ["app", "python"])


def test_two_pythons_that_an_entry_loads_together_stay(tmp_path: Path) -> None:
    tools = spec("lab/1", depends=("sci/1", "other/1"))
    tree = make_tree(tmp_path, environment("sci/1"), environment("other/1"), tools)
    assert pythons(tree, "module load lab") == (["0", "sci/1:other/1:lab/1"], "", ["other", "sci"])


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("sci/1", "Loading it replaces any other loaded module of family python."),
        ("app/1", "Loading it replaces any other loaded module of the families lab and python."),
        ("tool/1", ""),
        ("deep/1", "Loading it replaces any other loaded module of the families compiler, lab and python."),
    ],
)
def test_help_says_what_a_load_replaces(tmp_path: Path, entry: str, text: str) -> None:
    app = environment("app/1", "sci/1", families=("lab",))
    deep = spec("deep/1", depends=("app/1",), families=("compiler",))
    said = (
        make_tree(tmp_path, environment("sci/1"), app, spec("tool/1"), deep).shell(f"module help {entry} 2>&1").stdout
    )
    assert [line for line in said.splitlines() if "replaces" in line] == ([text] if text else [])


@settings(max_examples=5)
@given(st.integers(0, 2**32))
def test_never_two_of_a_family_nor_a_load_without_end(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = random.Random(seed)
    entries = random_entries(rng, rng.randint(3, 6))
    steps = play(tmp_path_factory.mktemp("graph"), entries, random_session(rng, entries, 6))
    assert list(faults(entries, steps)) == []
