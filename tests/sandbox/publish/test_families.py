"""Families as a site meets them: two Pythons, what `check` tells before a build, and a change of the word alone."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.sandbox import PYTHON, Sandbox

OWN_PYTHON = [f"python {PYTHON}.*"]
ENTRIES = ("sci/1.0", "other/1.0", "stack/1.0")


def test_second_python_replaces_the_first_until_its_recipe_says_that_it_stacks(sandbox: Sandbox) -> None:
    sandbox.recipe("sci/1.0", [*OWN_PYTHON, "numpy"])
    sandbox.recipe("other/1.0", OWN_PYTHON)
    sandbox.ok("lock", "sci/1.0", "other/1.0")
    sandbox.ok("build", "sci/1.0", "other/1.0")
    loaded = sandbox.shell('module load sci other; echo "$? $LOADEDMODULES"; command -v python')
    assert loaded.stdout.splitlines() == ["0 other/1.0", f"{installed(sandbox, 'other/1.0')}/bin/python"]
    assert loaded.stderr.strip() == 'Lmod is automatically replacing "sci/1.0" with "other/1.0".'
    assert sandbox.shell("module load other sci; python -c 'import numpy' && echo found").stdout == "found\n"

    before = {path: path.read_bytes() for path in (sandbox.prefix / "generations/0001/modules").rglob("*.lua")}
    store = set(sandbox.prefix.glob("store/*/*"))
    sandbox.recipe("sci/1.0", [*OWN_PYTHON, "numpy"], families=[])
    planned = sandbox.ok("build", "sci/1.0", "other/1.0", "--dry-run").stdout.splitlines()
    assert [line.partition(": ")[2].split()[0] + line.rpartition(";")[2] for line in planned[:2]] == [
        "reuse module text changed",
        "reuse module unchanged",
    ]
    assert [line.partition(" has no test")[0] for line in planned[2:]] == ["sci/1.0: its recipe"]
    listed = {e["entry"]: (e["state"], e["notes"]) for e in sandbox.ok("list", "--format", "json").data["entries"]}
    assert listed["sci/1.0"] == ("outdated", ["a publish writes its module again, on the same install"])
    assert listed["other/1.0"] == ("published", [])
    facts = sandbox.run("check", "--format", "json").data["facts"]
    assert [(f["status"], f["text"], f["hint"]) for f in facts if f["field"] == "upgrade"] == [
        (
            "warning",
            "a publish would write another module of sci/1.0, on the same install",
            "`envmgr publish` does it now",
        )
    ]
    sandbox.ok("publish")
    assert set(sandbox.prefix.glob("store/*/*")) == store
    assert {path: path.read_bytes() for path in before} == before
    stacked = sandbox.shell("module load other sci; echo $LOADEDMODULES; python -c 'import numpy' && echo found")
    assert (stacked.stdout, stacked.stderr) == ("other/1.0:sci/1.0\nfound\n", "")


def installed(sandbox: Sandbox, entry: str) -> Path:
    name, version = entry.split("/")
    (found,) = (path for path in sandbox.prefix.glob(f"store/{name}/{version}-*") if path.is_dir())
    return found


def test_catalog_check_tells_of_families_that_cannot_be_kept(sandbox: Sandbox) -> None:
    """From the locks alone: nothing is built."""
    sandbox.recipe("sci/1.0", OWN_PYTHON)
    sandbox.recipe("other/1.0", OWN_PYTHON)
    sandbox.recipe("app/1.0", OWN_PYTHON, depends=["sci/1.0"])
    forced = sandbox.recipe("forced/1.0", OWN_PYTHON, depends=["sci/1.0"], families=["lab", "python"])
    lab = sandbox.recipe("lab/1.0", ["shared"], depends=["sci/1.0", "other/1.0"])
    sandbox.recipe("one/1.0", ["shared"], families=["greeter"])
    sandbox.recipe("two/1.0", ["shared"], families=["greeter"])
    both = sandbox.recipe("both/1.0", ["shared"], depends=["one/1.0", "two/1.0"])
    older = sandbox.recipe("one/2.0", ["shared"], depends=["one/1.0"])
    names = ["sci/1.0", "other/1.0", "app/1.0", "forced/1.0", "lab/1.0", "one/1.0", "two/1.0", "both/1.0", "one/2.0"]
    sandbox.ok("lock", *names)
    done = sandbox.run("check", *names, "--format", "json")
    assert done.code == 1
    found = {
        f["where"]: (f["severity"], f["found"], f["hint"]) for f in done.data["findings"] if f["check"] == "families"
    }
    assert found == {
        "both/1.0": (
            "error",
            f"{both}/recipe.yaml: depends: one/1.0 and two/1.0 are both of family greeter, and Lmod keeps one module of a family loaded",
            "depend on one of them, or let one of them say `families: []`",
        ),
        "forced/1.0": (
            "error",
            f"{forced}/recipe.yaml: families: python: sci/1.0, which it depends on, is of it too, and Lmod cannot load both",
            "take python out of it: its module leaves it out, and loading it still replaces members of it",
        ),
        "lab/1.0": (
            "warning",
            (
                f"{lab}/recipe.yaml: depends: other/1.0 and sci/1.0 would each be of family python by default, and are not, "
                "so that both can be loaded"
            ),
            "depend on one of them, if it does",
        ),
        "one/2.0": (
            "error",
            f"{older}/recipe.yaml: depends: one/1.0 and one/2.0 have one name, and Lmod keeps one version of a name loaded",
            "depend on one of them, or give one another name",
        ),
    }
    assert sandbox.run("check", "app/1.0", "sci/1.0").code == 0
    alone = sandbox.run("check", "forced/1.0", "--format", "json").data["findings"]
    assert [f["check"] for f in alone if f["severity"] == "error"] == ["families"]
