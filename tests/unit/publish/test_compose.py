from __future__ import annotations

import datetime
from typing import Any

from envmgr.catalog.gpus import GpuNeeds
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe, Software
from envmgr.catalog.recipe_parts import Deprecated, Requires, SmokeTest
from envmgr.modules.spec import EnvOp, ModuleSpec, ShellFunction, UnloadCommand
from envmgr.publish.compose import compose_module
from envmgr.store.manifest import InstallFacts

ROOT = "/shared/envmgr/store/tool/1.2-abababab"
CAPTURED = (EnvOp(kind="prepend", name="PATH", value=f"{ROOT}/bin"), EnvOp(kind="set", name="MODE", value="captured"))


def compose(facts: InstallFacts | None = None, software: Software | None = None, **recipe: Any) -> ModuleSpec:
    return compose_module(
        Entry("tool", "1.2"),
        Recipe(backend="conda", input={}, **recipe),
        software or Software(description="A tool"),
        root=ROOT,
        digest="ab" * 32,
        packages={"zlib": "1.3 0"},
        extensions=("zlib/1.3",),
        facts=facts or InstallFacts(),
    )


def environment(**fields: Any) -> list[tuple[str, str, str]]:
    return [(op.kind, op.name, op.value) for op in compose(environment=fields).environment]


def test_compose_module_of_a_bare_recipe() -> None:
    assert compose() == ModuleSpec(
        name="tool",
        version="1.2",
        root=ROOT,
        digest="ab" * 32,
        description="A tool",
        extensions=("zlib/1.3",),
        packages={"zlib": "1.3 0"},
        own_python=False,
    )


def test_compose_module_takes_over_everything_that_recipe_and_software_say() -> None:
    test = SmokeTest(name="runs", run="tool --version", needs=("gpu",))
    requires = Requires(nvidia_driver="525.60.13", compute_capability=("7.5",))
    gone = Deprecated(message="use 1.3", date=datetime.date(2027, 1, 1))
    spec = compose(
        software=Software(description=" A\n  tool \n", homepage="https://example.org", licence="MIT", category="ai"),
        depends=("gcc/13",),
        conflicts=("other", "third/1"),
        families=("tools",),
        requires=requires,
        tests=(test,),
        help="\nHow to use it.\n\n",
        hidden=True,
        deprecated=gone,
    )
    assert spec == ModuleSpec(
        name="tool",
        version="1.2",
        root=ROOT,
        digest="ab" * 32,
        description="A\n  tool",
        homepage="https://example.org",
        licence="MIT",
        category="ai",
        help="How to use it.",
        families=("tools",),
        conflicts=("other", "third/1"),
        depends=("gcc/13",),
        extensions=("zlib/1.3",),
        packages={"zlib": "1.3 0"},
        own_python=False,
        requires=requires,
        gpu=GpuNeeds(codes=("7.5",), driver="525.60.13"),
        tests=(test,),
        hidden=True,
        deprecated=gone,
    )
    assert spec.entry == "tool/1.2"
    assert compose(default=True).default


def test_compose_module_keeps_the_difference_between_no_families_and_none_named() -> None:
    assert (compose(families=()).families, compose().families) == ((), None)


def test_compose_module_has_python_when_the_install_has() -> None:
    assert compose(InstallFacts(python="3.12")).python
    assert not compose(InstallFacts()).python


def test_compose_module_lets_the_recipe_win_over_captured_variables() -> None:
    spec = compose(InstallFacts(environment=CAPTURED), environment={"set": {"MODE": "own"}})
    assert spec.environment == (*CAPTURED, EnvOp(kind="set", name="MODE", value="own"))


def test_compose_module_fills_in_root_name_and_version() -> None:
    assert environment(set={"A": "${root}/x:$name-${version}", "B": "5 $$ plain"}) == [
        ("set", "A", f"{ROOT}/x:tool-1.2"),
        ("set", "B", "5 $ plain"),
    ]


def test_compose_module_fills_in_once() -> None:
    assert environment(set={"A": "$$root"}) == [("set", "A", "$root")]


def test_compose_module_leaves_home_and_user_for_the_load() -> None:
    ops = compose(
        environment={"set": {"A": "$HOME/$$HOME/${name}"}, "set_default": {"B": "${USER}", "C": "c"}}
    ).environment
    assert ops == (
        EnvOp(kind="set", name="A", value="${HOME}/$$HOME/tool", at_load=True),
        EnvOp(kind="set-default", name="B", value="${USER}", at_load=True),
        EnvOp(kind="set-default", name="C", value="c"),
    )


def test_compose_module_fills_in_only_root_in_shell_text() -> None:
    texts = {"f": {"bash": "${root}/f $1 $$ ${name}", "csh": "${root}/f $*"}}
    spec = compose(environment={"functions": texts, "on_unload": {"bash": "${root}/x ${A-b}"}})
    assert spec.functions == (ShellFunction(name="f", bash=f"{ROOT}/f $1 $$ ${{name}}", csh=f"{ROOT}/f $*"),)
    assert spec.on_unload == UnloadCommand(bash=f"{ROOT}/x ${{A-b}}")


def test_compose_module_prepends_so_that_the_first_of_a_list_comes_out_first() -> None:
    assert environment(
        prepend={"PATH": ("${root}/a", "${root}/b"), "MANPATH": ("m",)}, append={"PATH": ("y", "z")}
    ) == [
        ("prepend", "PATH", f"{ROOT}/b"),
        ("prepend", "PATH", f"{ROOT}/a"),
        ("prepend", "MANPATH", "m"),
        ("append", "PATH", "y"),
        ("append", "PATH", "z"),
    ]
    path: list[str] = ["before"]
    for kind, name, value in environment(prepend={"PATH": ("a", "b")}, append={"PATH": ("y", "z")}):
        assert name == "PATH"
        path.insert(0, value) if kind == "prepend" else path.append(value)
    assert path == ["a", "b", "before", "y", "z"]
