"""Flat modules: what EasyBuild's own module does with all that it loads, in one; and with a real Lmod, that it is the same."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.easybuild.workshop import Workshop, make_workshop

# Reading what `module show` says


# One list of changes from many modules


# A real Lmod, on modules that EasyBuild made: a chain of ten, and `side`, which shares its first link

ODD = 'a "quoted" value (with $HOME, and ]])'


@pytest.fixture(scope="module")
def made() -> Iterator[Workshop]:
    box = make_workshop()
    try:
        for number in range(1, 11):
            box.toy(
                f"c{number}",
                dependencies=[(f"c{number - 1}", "1.0")] if number > 1 else [],
                modextravars={f"ONLY_{number}": ODD, "SHARED": f"of c{number}"},
                modextrapaths={"LISTED": ["bin", f"share{number}"]},
                postinstallcmds=[f"mkdir %(installdir)s/share{number} && touch %(installdir)s/share{number}/x"],
            )
        box.toy("side", dependencies=[("c1", "1.0")], modextravars={"SHARED": "of side"})
        box.entry("side/1.0", "side-1.0.eb")
        box.locked("chain/1.0", "c10-1.0.eb")
        box.ok("lock", "side/1.0")
        box.ok("build", "chain/1.0", "side/1.0", "-j", "2")
        yield box
    finally:
        remove_tree(box.root)


def environment(box: Workshop, script: str) -> dict[str, str]:
    """What `script` leaves in a shell's environment; Lmod's and the shell's own book-keeping left out."""
    done = box.shell(f"export LISTED=/mine SHARED=mine\n{script}\nenv -0\n")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", done.stderr
    rows = (row.partition("=") for row in done.stdout.split("\0") if row)
    ignored = (
        "_LMFILES_",
        "LOADEDMODULES",
        "MODULEPATH",
        "__LMOD",
        "_ModuleTable",
        "LMOD_",
        "ENVMGR_",
        "EBDEVEL",
        "BASH_FUNC",
        "_=",
    )
    return {name: value for name, _, value in rows if not f"{name}=".startswith(ignored)}


def elements(found: dict[str, str]) -> dict[str, list[str]]:
    return {name: sorted(value.split(":")) for name, value in found.items() if name != "SHARED"}


def own_module(box: Workshop, name: str) -> str:
    item = next(i for i in box.items() if i.startswith(f"{name}/"))
    return f"module use {box.prefix}/easybuild/modules && module load {item}"


def test_a_flat_module_gives_the_environment_of_easybuild_s_chain(made: Workshop) -> None:
    plain = environment(made, "")
    flat, chain = environment(made, "module load chain/1.0"), environment(made, own_module(made, "c10"))
    assert flat.pop("CHAIN_ROOT").startswith(f"{made.prefix}/store/c10/")
    assert flat == chain
    assert flat["SHARED"] == "of c10"
    assert flat["ONLY_3"] == ODD.replace("$HOME", str(made.root))
    assert len(flat["LISTED"].split(":")) == 21
    assert flat["LISTED"].endswith(":/mine")
    assert plain["LISTED"] == "/mine"


def test_easybuild_s_own_modules_stay_usable(made: Workshop) -> None:
    said = made.shell(f"{own_module(made, 'c10')}\nmodule -t list 2>&1\ntype -P toy")
    lines = said.stdout.splitlines()
    assert sorted(line.partition("/")[0] for line in lines[:-1]) == sorted(f"c{n}" for n in range(1, 11))
    assert lines[-1].startswith(f"{made.prefix}/store/c10/")


def test_what_the_user_had_comes_back_after_an_unload(made: Workshop) -> None:
    assert environment(made, "module load chain/1.0; module unload chain/1.0") == environment(made, "")


@pytest.mark.parametrize("load", list(itertools.permutations(["chain/1.0", "side/1.0"])))
@pytest.mark.parametrize("first", ["chain/1.0", "side/1.0"])
def test_two_modules_that_share_a_dependency_can_be_unloaded_in_any_order(
    made: Workshop, load: tuple[str, str], first: str
) -> None:
    """After the first is gone, the other's environment is what it would be alone; after both, the user's.

    `SHARED`, which both set to values of their own, is left out: Lmod takes back the newer, whoever set it.
    """
    other = next(name for name in load if name != first)
    both = "; ".join(f"module load {name}" for name in load)
    left = environment(made, f"{both}; module unload {first}")
    alone = environment(made, f"module load {other}")
    # Lmod puts an element that is there already to the front, and leaves it there: lists have the same elements.
    assert elements(left) == elements(alone)
    assert environment(made, f"{both}; module unload {first}; module unload {other}") == environment(made, "")


def test_the_flat_module_s_file_names_no_other_module(made: Workshop) -> None:
    text = (made.prefix / "current/modules/chain/1.0.lua").read_text()
    assert "depends_on" not in text
    assert "load(" not in text
    assert os.path.realpath(made.prefix / "current") != str(made.prefix / "current")
