"""What the modules do in a shell, with real Lmod: load, unload, relations, versions, messages."""

from __future__ import annotations

import re
from datetime import date

import pytest

from envmgr.catalog.recipe_parts import Deprecated
from tests.helpers.lmod_shell import DIGEST, LMOD, make_tree, op, spec

# The user's own values are ASCII and not empty: Lmod 8.6.19 damages others when it brings them back (its base64 loses bits
# of bytes from 0xC0 on, and an empty value becomes none).
OURS = {
    "set": op("set", "V", "ours 'q' \"$HOME\" `x` \\ ]]  %*?~"),
    "set-default": op("set-default", "V", "ours"),
    "unset": op("unset", "V"),
    "prepend": op("prepend", "V", "/ours"),
    "append": op("append", "V", "/ours"),
    "append with spaces": op("append", "V", "-O2", " "),
    "prepend with semicolons": op("prepend", "V", "ours", ";"),
    "append a URI": op("append", "V", "file:///ours/etc/xml/catalog", " "),
}


@pytest.mark.parametrize(
    ("kind", "mine", "loaded"),
    [
        ("set", None, OURS["set"].value),
        ("set", "mine 'q' \"$X\" \\ ]]", OURS["set"].value),
        ("set-default", None, "ours"),
        ("set-default", "mine", "mine"),
        ("set-default", "ours", "ours"),
        ("unset", None, None),
        ("unset", "mine", None),
        ("prepend", None, "/ours"),
        ("prepend", "/mine:/too", "/ours:/mine:/too"),
        ("prepend", "/mine:/ours", "/ours:/mine"),
        ("append", "/mine:/too", "/mine:/too:/ours"),
        ("append with spaces", None, "-O2"),
        ("append with spaces", "-g -Wall", "-g -Wall -O2"),
        ("prepend with semicolons", "a;b", "ours;a;b"),
        # As Lmod's own lists they would come out as `file:/…`, and the repeated `-isystem` would be folded.
        ("append a URI", "file:///etc/xml/catalog", "file:///etc/xml/catalog file:///ours/etc/xml/catalog"),
        ("append with spaces", "-isystem /a -isystem /b", "-isystem /a -isystem /b -O2"),
    ],
)
def test_load_changes_and_unload_restores_the_users_value(
    tmp_path, kind: str, mine: str | None, loaded: str | None
) -> None:
    tree = make_tree(tmp_path, spec("app/1", OURS[kind]))
    done = tree.shell(
        "snapshot before; module load app; snapshot loaded; module unload app; snapshot after",
        **({} if mine is None else {"V": mine}),
    )
    before, after = tree.read_snapshot("before"), tree.read_snapshot("after")
    assert (done.returncode, done.stderr) == (0, "")
    assert tree.read_snapshot("loaded").get("V") == loaded
    if kind == "prepend" and mine == "/mine:/ours":
        # Lmod moves an element that is there already and counts it: it stays, at its new place.
        assert (before.pop("V"), after.pop("V")) == ("/mine:/ours", "/ours:/mine")
    assert after == before


def test_load_changes_only_what_the_entry_says(tmp_path) -> None:
    tree = make_tree(tmp_path, spec("open-mpi/4.1", op("prepend", "PATH", "/store/bin"), python=True), generation=7)
    tree.shell("snapshot before; module load open-mpi; snapshot loaded")
    before, loaded = tree.read_snapshot("before"), tree.read_snapshot("loaded")
    assert {key: value for key, value in loaded.items() if before.get(key) != value} == {
        "OPEN_MPI_ROOT": "/store/open-mpi/4.1-01234567",
        "ENVMGR_OPEN_MPI_DIGEST": DIGEST,
        "ENVMGR_GENERATION": "7",
        "PYTHONNOUSERSITE": "1",
        "PATH": f"/store/bin:{before['PATH']}",
    }


def test_unload_in_any_order_keeps_what_the_other_entry_needs(tmp_path) -> None:
    shared = op("set", "TOOL", "/store/tool"), op("prepend", "PATH", "/store/tool/bin"), op("set-default", "N", "4")
    tree = make_tree(tmp_path, spec("a/1", *shared), spec("b/1", *shared))
    for first, second in (("a", "b"), ("b", "a")):
        tree.shell(
            f"snapshot before; module load a b; module unload {first}; snapshot one; module unload {second}; snapshot none",
            TOOL="mine",
        )
        before, one = tree.read_snapshot("before"), tree.read_snapshot("one")
        assert (one["TOOL"], one["N"], one["ENVMGR_GENERATION"]) == ("/store/tool", "4", "42")
        assert one["PATH"] == f"/store/tool/bin:{before['PATH']}"
        assert tree.read_snapshot("none") == before


def test_set_default_keeps_a_value_given_after_load(tmp_path) -> None:
    tree = make_tree(tmp_path, spec("a/1", op("set-default", "N", "4")))
    tree.shell("snapshot before; module load a; export N=9; module unload a; snapshot after")
    assert tree.read_snapshot("after") == {**tree.read_snapshot("before"), "N": "9"}


def test_set_default_of_the_first_entry_wins(tmp_path) -> None:
    tree = make_tree(tmp_path, spec("a/1", op("set-default", "N", "4")), spec("b/1", op("set-default", "N", "8")))
    done = tree.shell("module load a b; echo $N; module unload b; echo $N; module unload a; echo ${N-gone}")
    assert done.stdout.split() == ["4", "4", "gone"]


def test_swap_of_versions_brings_the_users_value_back_at_the_end(tmp_path) -> None:
    tree = make_tree(tmp_path, spec("a/1", op("set", "V", "one")), spec("a/2", op("set", "V", "two")))
    done = tree.shell(
        "module load a/1; module load a/2; echo $V; module load a/1; echo $V; module purge; echo $V", V="mine"
    )
    assert done.stdout.split() == ["two", "one", "mine"]


@pytest.mark.parametrize("name", ["MANPATH", "INFOPATH"])
@pytest.mark.parametrize(
    ("mine", "both", "second"),
    [
        # An empty element means the system's pages; Lmod ends such a list with two colons, which means the same.
        (None, "/b:/a::", "/b::"),
        ("/mine", "/b:/a:/mine", "/b:/mine"),
        ("/mine:", "/b:/a:/mine::", "/b:/mine::"),
    ],
)
def test_load_keeps_the_systems_manual_pages(tmp_path, name: str, mine: str | None, both: str, second: str) -> None:
    tree = make_tree(tmp_path, spec("a/1", op("prepend", name, "/a")), spec("b/1", op("prepend", name, "/b")))
    script = f"module load a; module load b; echo ${name}; module unload a; echo ${name}; module unload b; echo ${{{name}-gone}}"
    done = tree.shell(script, **({} if mine is None else {name: mine}))
    last = {None: "gone", "/mine": "/mine", "/mine:": "/mine::"}[mine]
    assert done.stdout.split() == [both, second, last]


def test_load_of_a_name_takes_the_default_version_and_avail_hides_the_hidden(tmp_path) -> None:
    tree = make_tree(
        tmp_path, spec("a/1", default=True), spec("a/2"), spec("a/3", hidden=True), spec("b/1"), spec("b/2")
    )
    for cached in (False, True):
        if cached:
            tree.cache()
        done = tree.shell("module load a b; echo $LOADEDMODULES; module -t avail 2>&1", LMOD_CACHED_LOADS="yes")
        assert done.stdout.splitlines() == ["a/1:b/2", f"{tree.modules}:", "a/", "a/1", "a/2", "b/", "b/1", "b/2"]
        marked = tree.shell("module avail a 2>&1; module --show_hidden -t avail a 2>&1").stdout
        assert "a/1 (D)    a/2" in marked
        assert marked.splitlines()[-3:] == ["a/1", "a/2", "a/3"]
        assert tree.shell("module load a/3; echo $LOADEDMODULES").stdout == "a/3\n"


def test_family_replaces_the_member_that_is_loaded(tmp_path) -> None:
    tree = make_tree(tmp_path, spec("gcc/12", families=("compiler",)), spec("clang/17", families=("compiler",)))
    done = tree.shell("module load gcc; module load clang; echo $LOADEDMODULES")
    assert done.stdout == "clang/17\n"
    assert done.stderr.strip() == 'Lmod is automatically replacing "gcc/12" with "clang/17".'


@pytest.mark.parametrize("conflict", ["mpich", "mpich/4"])
def test_conflict_of_one_recipe_holds_in_both_orders(tmp_path, conflict: str) -> None:
    """By name, by entry, across versions, through a dependency, by swap, and in a collection."""
    foe = spec("openmpi/4", conflicts=(conflict,))
    tree = make_tree(tmp_path, foe, spec("mpich/4"), spec("mpich/3"), spec("app/1", depends=("mpich/4",)), spec("x/1"))
    other = "1 openmpi/4" if conflict == "mpich" else "0 openmpi/4:mpich/3"
    for script, said in {
        "module load openmpi; module load mpich/4": "1 openmpi/4",
        "module load mpich/4; module load openmpi": "1 mpich/4",
        "module load openmpi; module load mpich/3": other,
        "module load openmpi; module load app": "1 openmpi/4",
        "module load openmpi x; module swap x mpich/4": "1 openmpi/4",
        "module load openmpi; module swap openmpi mpich/4": "0 mpich/4",
        "module load openmpi; module unload openmpi; module load mpich/4": "0 mpich/4",
        "module load x; module load openmpi; module purge; module load app": "0 mpich/4:app/1",
    }.items():
        done = tree.shell(f"{script}; echo $? $LOADEDMODULES")
        assert done.stdout.strip().split(":x/1")[0].removeprefix("x/1:") == said, (script, done.stdout, done.stderr)
        assert ("because these module(s) are loaded" in done.stderr) == said.startswith("1"), script


def test_conflict_holds_in_a_collection_that_was_saved_before_it(tmp_path) -> None:
    home = {"HOME": str(tmp_path)}
    before = make_tree(tmp_path, spec("openmpi/4"), spec("mpich/4"))
    assert before.shell("module load openmpi mpich && module save both && echo saved", **home).stdout.endswith(
        "saved\n"
    )
    tree = make_tree(tmp_path, spec("openmpi/4", conflicts=("mpich",)), spec("mpich/4"))
    done = tree.shell("module restore both; echo $? $LOADEDMODULES", **home)
    assert "because these module(s) are loaded" in done.stderr
    assert "openmpi/4:mpich/4" not in done.stdout


@pytest.mark.parametrize("shell", ["sh", "zsh", "tcsh", "fish"])
def test_conflict_holds_in_every_shell(tmp_path, shell: str) -> None:
    tree = make_tree(tmp_path, spec("openmpi/4", conflicts=("mpich",)), spec("mpich/4"))
    init = LMOD.init_script({"tcsh": "csh"}.get(shell, shell))
    source = ". " if shell in {"sh", "zsh"} else "source "
    fast = {"zsh": "-f", "tcsh": "-f", "fish": "--no-config"}.get(shell, "")
    text = tmp_path / "script"
    text.write_text(f"{source}{init}\nmodule load openmpi\nmodule load mpich\necho LOADED=$LOADEDMODULES\n")
    done = tree.shell(f"{shell} {fast} {text}")
    assert done.stdout.splitlines()[-1] == "LOADED=openmpi/4", done.stderr
    assert "because these module(s) are loaded" in done.stderr


def test_conflict_is_named_once_where_both_recipes_say_it(tmp_path) -> None:
    tree = make_tree(tmp_path, spec("a/1", conflicts=("b",)), spec("b/1", conflicts=("a/1",)), spec("b/2"))
    texts = {name: (tree.modules / f"{name}.lua").read_text() for name in ("a/1", "b/1", "b/2")}
    assert 'conflict("b", "b/1")' in texts["a/1"]
    assert 'conflict("a/1")' in texts["b/1"]
    assert 'conflict("a/1")' in texts["b/2"]


def test_depends_on_loads_the_dependency_and_unloads_it_again(tmp_path) -> None:
    tree = make_tree(tmp_path, spec("app/1", depends=("lib/2",)), spec("lib/2"), spec("lib/3"))
    done = tree.shell("module load app; echo $LOADEDMODULES; module unload app; echo [$LOADEDMODULES]")
    assert done.stdout.splitlines() == ["lib/2:app/1", "[]"]
    kept = tree.shell("module load lib/2; module load app; module unload app; echo $LOADEDMODULES")
    assert kept.stdout == "lib/2\n"


@pytest.mark.parametrize("depends", [("app/1.0", "base/1.0"), ("base/1.0", "app/1.0")])
def test_dependency_that_leaves_as_another_changes_its_version_is_loaded_again(
    tmp_path, depends: tuple[str, str]
) -> None:
    """`base` came with `app/2.0`, and goes with it when `tool` brings `app/1.0`; Lmod 8.6 then has to load it for `tool`."""
    tree = make_tree(
        tmp_path,
        spec("base/1.0"),
        spec("app/1.0"),
        spec("app/2.0", depends=("base/1.0",)),
        spec("tool/1.0", depends=depends),
    )
    done = tree.shell(
        "module load app/2.0; module load tool; echo $?:$LOADEDMODULES; module unload tool; echo $LOADEDMODULES"
    )
    assert "error" not in done.stderr
    loaded, left = done.stdout.splitlines()
    assert (loaded.partition(":")[0], sorted(loaded.split(":")[1:])) == ("0", ["app/1.0", "base/1.0", "tool/1.0"])
    assert "tool/1.0" not in left


def test_deprecation_is_told_at_load_and_only_there(tmp_path) -> None:
    old = Deprecated(message='use "app/2"\nwith é', date=date(2026, 6, 30))
    tree = make_tree(tmp_path, spec("app/1", deprecated=old))
    message = 'app/1 is deprecated and goes away on 2026-06-30: use "app/2" with é'
    done = tree.shell("module load app; echo $?; module list -t 2>/dev/null; module unload app")
    assert (done.stdout, done.stderr.strip()) == ("0\n", message)
    for verb in ("avail", "spider", "-t spider"):
        assert message not in tree.shell(f"module {verb} 2>&1").stdout
    shown = tree.shell("module show app 2>&1").stdout
    assert "LmodMessage" not in shown
    assert f'whatis("Deprecated: {message}")' in shown


def test_help_and_whatis_tell_what_the_recipe_says(tmp_path) -> None:
    entry = spec(
        "app/1",
        description="Does\nthings",
        homepage="https://x.example",
        licence="MIT",
        category="tools",
        help="[[Read]] 'this'",
    )
    tree = make_tree(tmp_path, entry)
    whatis = re.findall(r"^app/1 +: (.*)$", tree.shell("module whatis app 2>&1").stdout, re.MULTILINE)
    assert whatis == [
        "Name: app",
        "Version: 1",
        "Description: Does things",
        "URL: https://x.example",
        "License: MIT",
        "Category: tools",
    ]
    text = tree.shell("module help app 2>&1").stdout
    told = "app/1: Does\nthings\n\n[[Read]] 'this'\n\nMore: https://x.example\n\nInstalled in /store/app/1-01234567\n"
    assert told in text


def test_extensions_are_found_by_spider_through_the_cache(tmp_path) -> None:
    tree = make_tree(
        tmp_path,
        spec("torch/2.1", extensions=("numpy/1.26.4", "six/1")),
        spec("jax/1", extensions=("numpy/2.0",)),
        spec("z/1"),
    )
    tree.cache()
    for path in tree.modules.rglob("*.lua"):
        path.chmod(0o644)
        path.write_text("error('the cache was not used')\n")
    found = tree.shell("module spider numpy 2>&1").stdout
    assert "Versions:\n        numpy/1.26.4 (E)\n        numpy/2.0 (E)" in found
    exact = tree.shell("module spider numpy/1.26.4 2>&1").stdout
    assert (
        "This extension is provided by the following modules. To access the extension you must load one of the following modules."
        in exact
    )
    assert "torch/2.1\n" in exact
    assert "jax/1" not in exact
