"""Modulefiles as text: quoting, statements, golden trees, fingerprints. What they do in a shell: test_module_load.py."""

from __future__ import annotations

import json
import random
import re
import shutil
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envmgr.catalog.gpus import GpuNeeds
from envmgr.catalog.recipe_parts import Deprecated, Requires, SmokeTest
from envmgr.catalog.site import load_site
from envmgr.errors import EnvmgrError
from envmgr.modules.families import Families, find_families, member_of
from envmgr.modules.lmod import lua_quote
from envmgr.modules.render import (
    GPU_GATE,
    GPU_RULES,
    MODULE,
    MODULERC,
    TEMPLATE_FILES,
    fingerprint,
    render_tree,
    templates_digest,
)
from envmgr.modules.spec import ModuleSpec, Outside, Pip, ShellFunction, UnloadCommand
from envmgr.modules.statements import ModulePolicies, Statement, operations
from envmgr.system.run import Runner
from tests.helpers.golden_cases import cases, read_expected, render_case
from tests.helpers.lmod_shell import LMOD, TEMPLATES, op, spec

WARN = ModulePolicies()


def render(*specs: ModuleSpec, **policies: object) -> dict[str, str]:
    return render_tree(specs, generation=42, policies=ModulePolicies(**policies), templates=TEMPLATES)


# --- quoting


@settings(max_examples=12)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=("Cs",)) | st.sampled_from('"\\]\n\r\0019é'), max_size=60), min_size=60
    )
)
def test_lua_quote_comes_back_unchanged_from_lmods_lua(texts: list[str]) -> None:
    show = "local function show(s) print((s:gsub('.', function(c) return ('%02x'):format(c:byte()) end))) end\n"
    program = show + "".join(f"show({lua_quote(text)})\n" for text in texts)
    lines = Runner().run([*LMOD._lua(), "-"], stdin=program).stdout.splitlines()
    assert [bytes.fromhex(line).decode() for line in lines] == texts


@given(st.text())
def test_lua_quote_stays_on_one_line_within_its_quotes(text: str) -> None:
    quoted = lua_quote(text.encode("utf-8", "replace").decode())
    assert len(quoted.splitlines()) == 1
    assert re.fullmatch(r'"(?:[^"\\\x00-\x1f]|\\["\\]|\\[0-9]{3})*"', quoted)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", '""'),
        ("]] ]==] --", '"]] ]==] --"'),
        ('say "hi" \\n', '"say \\"hi\\" \\\\n"'),
        ("a\nb\r\t", '"a\\010b\\013\\009"'),
        ("\x001", '"\\0001"'),
        ("é 漢 🐍", '"é 漢 🐍"'),
        ("\x85\u2028", '"\\194\\133\\226\\128\\168"'),
        ("\udcff", '"\\255"'),
    ],
)
def test_lua_quote_writes_the_known_form(text: str, quoted: str) -> None:
    assert lua_quote(text) == quoted


def test_lua_quote_refuses_a_surrogate_that_is_no_byte() -> None:
    with pytest.raises(UnicodeEncodeError):
        lua_quote("\ud800")


# --- statements


def test_operations_come_in_the_order_in_which_they_must_happen() -> None:
    done = operations(
        spec(
            "flame/1",
            op("prepend", "PATH", "/b"),
            op("set", "A", "1"),
            conflicts=("tf",),
            depends=("python/3",),
            extensions=("numpy/1", "six/2"),
            python=True,
            gpu=GpuNeeds(cuda=None, driver="450.1"),
        ),
        WARN,
        Families(("ai", "py"), ("ai", "py", "tools")),
    )
    assert [s for s in done if s.name not in ("help", "whatis")] == [
        Statement("call", "extensions", ("numpy/1, six/2",)),
        Statement("gpu-gate", "gpu_gate", ("flame/1", "warn", '{ driver = "450.1" }')),
        Statement("call", "family", ("ai",)),
        Statement("call", "family", ("py",)),
        Statement("call", "conflict", ("tf",)),
        Statement("call", "depends_on", ("python/3",)),
        Statement("call", "pushenv", ("FLAME_ROOT", "/store/flame/1-01234567")),
        Statement("call", "pushenv", ("ENVMGR_FLAME_DIGEST", "0123456789abcdef" * 4)),
        Statement("generation", "pushenv", ("ENVMGR_GENERATION",)),
        Statement("call", "pushenv", ("PYTHONNOUSERSITE", "1")),
        Statement("call", "prepend_path", ("PATH", "/b")),
        Statement("call", "pushenv", ("A", "1")),
    ]


@pytest.mark.parametrize(
    ("name", "value", "context"),
    [
        ("V", "a\nrm -rf x", "'a\\nrm -rf x': it holds \\n: neither shells nor people get it as it is"),
        ("V;rm", "a", "that is not a variable name"),
        ("", "a", "that is not a variable name"),
    ],
)
def test_operations_refuse_what_lmod_would_hand_to_the_shell_as_commands(name: str, value: str, context: str) -> None:
    with pytest.raises(EnvmgrError) as caught:
        operations(spec("app/1", op("prepend", name, value)), WARN)
    assert str(caught.value) == f"error[module-value]: the module of app/1 cannot change {name!r}\n  {context}"


def test_operations_refuse_a_list_without_a_separator() -> None:
    with pytest.raises(EnvmgrError) as caught:
        operations(spec("app/1", op("append", "V", "x", "")), WARN)
    assert str(caught.value) == "error[module-value]: the module of app/1 cannot change 'V'\n  a list needs a separator"


def test_operations_edit_one_list_of_words_once_in_the_order_of_its_changes() -> None:
    ops = [
        op("prepend", "V", "a", " "),
        op("prepend", "V", "b", " "),
        op("append", "V", "y", " "),
        op("append", "V", "z", ";"),
    ]
    wraps = [s for s in operations(spec("app/1", *ops), WARN) if s.kind == "wrap"]
    assert [s.arguments for s in wraps] == [("b a y", "b a ", " y"), ("z", "", ";z")]


@pytest.mark.parametrize(
    ("python", "user_site", "shut"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_operations_shut_out_the_user_site_where_there_is_python_and_policy_says_so(
    python: bool, user_site: bool, shut: bool
) -> None:
    done = operations(spec("a/1", python=python), ModulePolicies(user_site=user_site))
    assert (Statement("call", "pushenv", ("PYTHONNOUSERSITE", "1")) in done) is shut


def test_policies_come_from_the_site() -> None:
    site = load_site(None, {"HOME": "/home/x"})
    policies = site.policies.model_copy(update={"driver_gate": "refuse", "user_site": True})
    found = ModulePolicies.from_site(site.model_copy(update={"policies": policies}))
    assert found == ModulePolicies(driver_gate="refuse", user_site=True)


# --- rendering


@pytest.mark.parametrize("case", cases())
def test_golden_tree_is_rendered_byte_for_byte(case: str) -> None:
    assert render_case(case) == read_expected(case)


def test_golden_cases_are_found() -> None:
    assert cases() == ["modules-full", "modules-plain", "modules-quoting", "modules-shell"]


def test_render_tree_is_the_same_when_specs_are_shuffled() -> None:
    specs = [spec(f"app{i % 4}/{i}", default=i < 4, hidden=i > 9) for i in range(16)]
    first = render(*specs)
    random.Random(1).shuffle(specs)
    again = render(*specs)
    assert list(again.items()) == list(first.items())
    assert sorted(first) == list(first)


def test_render_tree_writes_modulerc_only_where_a_version_is_default_or_hidden() -> None:
    tree = render(spec("a/1"), spec("b/1", default=True), spec("b/2", hidden=True), spec("b/3", hidden=True))
    head = "-- Written by envmgr. Do not edit: change the recipes and build again.\n"
    assert sorted(tree) == ["a/1.lua", "b/.modulerc.lua", "b/1.lua", "b/2.lua", "b/3.lua"]
    assert (
        tree["b/.modulerc.lua"] == head + 'module_version("b/1", "default")\nhide_version("b/2")\nhide_version("b/3")\n'
    )


def test_render_tree_refuses_two_defaults_of_a_name() -> None:
    with pytest.raises(EnvmgrError) as caught:
        render(spec("a/2", default=True), spec("a/1", default=True))
    assert str(caught.value) == (
        "error[two-defaults]: a has two default versions\n"
        "  a/1 and a/2 both say `default: true`\n\n"
        "hint: keep it in one of the recipes"
    )


def test_render_tree_refuses_two_specs_of_an_entry() -> None:
    with pytest.raises(EnvmgrError) as caught:
        render(spec("a/1"), spec("a/1", description="other"))
    assert str(caught.value) == "error[two-modules]: there are two modules for a/1"


@pytest.mark.parametrize(
    ("name", "text", "context"),
    [
        (MODULE, "{{ spec.nme }}\n", "'envmgr.modules.spec.ModuleSpec object' has no attribute 'nme'"),
        (MODULERC, "{{ defualt }}\n", "'defualt' is undefined"),
        (MODULE, "\n{% if %}\n", "line 2: Expected an expression, got 'end of statement block'"),
    ],
)
def test_render_tree_fails_when_a_template_is_wrong(tmp_path, name: str, text: str, context: str) -> None:
    folder = tmp_path / "modulefiles"
    shutil.copytree(TEMPLATES, folder)
    (folder / name).write_text(text)
    with pytest.raises(EnvmgrError) as caught:
        render_tree([spec("a/1", default=True)], generation=1, policies=WARN, templates=folder)
    assert str(caught.value) == f"error[template-invalid]: cannot render {folder / name}\n  {context}"


def test_gate_is_included_only_where_a_gpu_is_needed() -> None:
    tree = render(spec("a/1"), spec("b/1", gpu=GpuNeeds(cuda=None, driver="525.60.13")), driver_gate="refuse")
    assert "gpu_" not in tree["a/1.lua"]
    assert all((TEMPLATES / name).read_text() in tree["b/1.lua"] for name in (GPU_RULES, GPU_GATE))
    assert 'gpu_gate("b/1", "refuse", { driver = "525.60.13" })\n' in tree["b/1.lua"]


# --- fingerprints

BASE = spec("a/1", op("set", "A", "1"), extensions=("numpy/1",))
# Field -> another value, and whether the rendered text shows it.
OTHER = {
    "name": ("b", True),
    "version": ("2", True),
    "root": ("/elsewhere", True),
    "digest": ("f" * 64, True),
    "description": ("other", True),
    "homepage": ("https://a.example", True),
    "licence": ("MIT", True),
    "category": ("tools", True),
    "help": ("read this", True),
    "families": (("mpi",), True),
    "conflicts": (("b",), True),
    "depends": (("b/1",), True),
    "environment": ((op("set", "A", "2"),), True),
    "functions": ((ShellFunction(name="f", bash=":"),), True),
    "on_unload": (UnloadCommand(csh=":"), True),
    "extensions": (("numpy/2",), True),
    "packages": ({"numpy": "1 py311"}, False),
    "python": (True, True),
    "own_python": (True, True),
    "pip": (Pip(folder="/x/bin", minor="3.11", writes=True), True),
    "kernel": (True, False),
    "kernel_program": ("/sw/bin/python3", False),
    "requires": (Requires(glibc="2.17"), True),
    "gpu": (GpuNeeds(cuda="12.1", codes=("7.0",)), True),
    "tests": ((SmokeTest(name="t", run="true"),), False),
    "imports": (("a",), False),
    "not_imported": (("a",), False),
    "default": (True, True),
    "hidden": (True, True),
    "deprecated": (Deprecated(message="gone", date=date(2026, 1, 1)), True),
    "stands_on": (("/up/store/python/3.11-00000000",), True),
    "outside": (Outside(path="/opt/v", roots=("/opt/v",), how="full", shape=""), True),
}


def test_fingerprint_cases_cover_every_field() -> None:
    assert set(OTHER) == set(ModuleSpec.model_fields)


@pytest.mark.parametrize("field", OTHER)
def test_fingerprint_changes_when_the_text_does_or_the_tests(field: str) -> None:
    value, shown = OTHER[field]
    changed = BASE.model_copy(update={field: value})
    assert (render(changed) != render(BASE)) is shown
    families = find_families({changed.entry: member_of(changed)})[changed.entry]
    assert (fingerprint(changed, WARN, "t", families) != fingerprint(BASE, WARN, "t")) is (
        shown or field in ("tests", "imports", "not_imported", "kernel")
    )


@pytest.mark.parametrize("kind", ["set", "set-default", "unset", "prepend", "append"])
@pytest.mark.parametrize("separator", [":", " "])
def test_fingerprint_tells_kinds_and_separators_apart(kind: str, separator: str) -> None:
    others = {
        (k, s): fingerprint(spec("a/1", op(k, "A", "1", s)), WARN, "t")
        for k in ("set", "set-default", "unset", "prepend", "append")
        for s in (":", " ")
    }
    mine = others.pop((kind, separator))
    same_text = {(kind, s) for s in (":", " ")} if kind in ("set", "set-default", "unset") else set()
    assert {key for key, value in others.items() if value == mine} == same_text - {(kind, separator)}


def test_fingerprint_depends_on_a_policy_only_where_the_text_does() -> None:
    refuse = ModulePolicies(driver_gate="refuse", user_site=True)
    plain, gated = spec("a/1"), spec("a/1", gpu=GpuNeeds(cuda=None, driver="450"))
    assert fingerprint(plain, WARN, "t") == fingerprint(plain, refuse, "t")
    assert fingerprint(gated, WARN, "t") != fingerprint(gated, refuse, "t")
    assert fingerprint(gated, WARN, "t") != fingerprint(gated, WARN, "u")


def test_fingerprint_is_the_recorded_one() -> None:
    # A change here means that every site renders its modules again: raise the schema number on purpose.
    assert fingerprint(BASE, WARN, "t") == "187f84dce00a5bfbcf656d241e540eacd3173b4121fa3429513b45e284c17a48"


def test_fingerprint_survives_the_way_through_json() -> None:
    full = spec(
        "a/1", op("set", "A", '"e'), packages={"b": "1", "a": "2"}, requires=Requires(compute_capability=("7.5",))
    )
    shuffled = json.loads(full.model_dump_json())
    back = ModuleSpec.model_validate(dict(reversed(shuffled.items())))
    assert fingerprint(back, WARN, "t") == fingerprint(full, WARN, "t")


@pytest.mark.parametrize("name", TEMPLATE_FILES)
def test_templates_digest_changes_with_each_file(tmp_path, name: str) -> None:
    folder = tmp_path / "modulefiles"
    shutil.copytree(TEMPLATES, folder)
    assert templates_digest(folder) == templates_digest(TEMPLATES)
    (folder / name).write_text((folder / name).read_text() + "\n")
    assert templates_digest(folder) != templates_digest(TEMPLATES)


@pytest.mark.parametrize("name", ["pip", "pyenv", "dotnet", "spack", "jupyter"])
def test_no_module_sets_a_known_program_s_variable_for_its_own_folder(name: str) -> None:
    made = operations(spec(f"{name}/1.0"), ModulePolicies())
    assert not [each for each in made if each.name == "pushenv" and each.arguments[0] == f"{name.upper()}_ROOT"]
    assert ("ENVMGR_" + name.upper() + "_DIGEST") in [each.arguments[0] for each in made if each.arguments]
