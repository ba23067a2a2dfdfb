from __future__ import annotations

import datetime
import json
import random
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from envmgr.catalog.accept import RULES
from envmgr.catalog.environment import Environment, ShellText
from envmgr.catalog.names import sort_key
from envmgr.catalog.recipe import Recipe, Software, load_recipe, load_software, shared_files
from envmgr.catalog.recipe_parts import Requires, SmokeTest
from envmgr.errors import InputError
from envmgr.system.untrusted_files import read_bytes
from tests.helpers.wording import one_of, pydantic_refuses, pydantic_says

MINIMAL: dict[str, Any] = {"backend": "conda", "input": {}}


def write(tmp_path: Path, **fields: Any) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps({**MINIMAL, **fields}, indent=1))
    return path


def faults(tmp_path: Path, **fields: Any) -> list[str]:
    """`field: reason` of each fault of the recipe."""
    path = write(tmp_path, **fields)
    with pytest.raises(InputError) as caught:
        load_recipe(path)
    assert caught.value.reference == "recipe-invalid"
    return [line.removeprefix(f"{path}:").partition(": ")[2] for line in caught.value.context]


def test_recipe_of_two_fields_has_defaults(tmp_path: Path) -> None:
    recipe = load_recipe(write(tmp_path))
    assert recipe == Recipe(
        schema=1,
        backend="conda",
        input={},
        depends=(),
        conflicts=(),
        families=None,
        environment=Environment(),
        requires=Requires(),
        tests=(),
        help="",
        default=False,
        hidden=False,
        deprecated=None,
    )


def test_recipe_reads_every_field(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "schema: 1\n"
        "backend: conda\n"
        "input: {channels: [conda-forge], specs: [python 3.12]}\n"
        "depends: [gcc/13.2]\n"
        "conflicts: [other, third/1.0]\n"
        "families: [python_like, tools]\n"
        "environment:\n"
        "  set: {A: '${root}/x', EMPTY: ''}\n"
        "  prepend: {PATH: ['${root}/a', '${root}/b']}\n"
        "  append: {MANPATH: [/m]}\n"
        "  set_default: {C: '${HOME}/c'}\n"
        '  functions: {f: {bash: "a\\nb\\n", csh: c}}\n'
        "  on_unload: {bash: ' d '}\n"
        "requires: {nvidia_driver: '525.60.13', compute_capability: ['7.5', '12.0'], glibc: '2.28', cpu_level: x86-64-v3}\n"
        "tests:\n"
        "  - {name: imports, run: 'python -c 1', needs: [gpu, mpi], timeout: 5}\n"
        "help: |\n"
        "  Two\n"
        "  lines.\n"
        "default: true\n"
        "deprecated: {message: use the next, date: 2027-01-31}\n"
    )
    recipe = load_recipe(path)
    assert recipe.depends == ("gcc/13.2",)
    assert recipe.conflicts == ("other", "third/1.0")
    assert recipe.environment.prepend == {"PATH": ("${root}/a", "${root}/b")}
    assert recipe.environment.set_default == {"C": "${HOME}/c"}
    assert recipe.environment.functions == {"f": ShellText(bash="a\nb", csh="c")}
    assert recipe.environment.on_unload == ShellText(bash="d")
    assert recipe.environment.set == {"A": "${root}/x", "EMPTY": ""}
    assert recipe.requires == Requires(
        nvidia_driver="525.60.13", compute_capability=("7.5", "12.0"), glibc="2.28", cpu_level="x86-64-v3"
    )
    assert recipe.tests == (SmokeTest(name="imports", run="python -c 1", needs=("gpu", "mpi"), timeout=5),)
    assert recipe.help == "Two\nlines.\n"
    assert recipe.families == ("python_like", "tools")
    assert recipe.deprecated is not None
    assert recipe.deprecated.date == datetime.date(2027, 1, 31)


@pytest.mark.parametrize(("fields", "named"), [({}, None), ({"families": ["mpi"]}, ("mpi",)), ({"families": []}, ())])
def test_families_are_a_list_empty_or_left_to_the_install(
    tmp_path: Path, fields: dict[str, Any], named: tuple[str, ...] | None
) -> None:
    assert load_recipe(write(tmp_path, **fields)).families == named


KNOWN = "`${root}`, `${name}`, `${version}`, `${HOME}`, `${USER}` can be used, `$$` is a dollar"
LINE_BREAK = "a variable's value cannot be `x\\ny`: it holds \\n: neither shells nor people get it as it is"
CONTROL = "must be one line, without control characters"
FAULTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown-field": ({"colour": 1}, ["colour: unknown field"]),
    "newer-schema": ({"schema": 2}, [f"schema: {pydantic_says('literal_error', expected='1')}"]),
    "backend-missing": ({"backend": None}, ["backend: must be text: put it in quotes"]),
    "input-list": ({"input": []}, ["input: must be a mapping"]),
    "depends-bad": ({"depends": ["gcc/13", "a/../b"]}, ["depends: `a/../b` is not an entry (name/version)"]),
    "conflicts-bad": ({"conflicts": ["a b"]}, ["conflicts: `a b` is neither a name nor an entry"]),
    "family-newline": (
        {"families": ["mpi\n"]},
        ["families: a family is one word of letters, digits and _ (Lmod makes variable names of it)"],
    ),
    "families-twice": ({"families": ["mpi", "python", "MPI"]}, ["families: MPI is there twice"]),
    "two-tests-of-a-name": (
        {"tests": [{"name": "a", "run": "x"}, {"name": "a", "run": "y"}]},
        ["tests: two tests are called a"],
    ),
    "test-of-two-kinds": (
        {"tests": [{"name": "a", "run": "x", "imports": ["one"]}]},
        ["tests.0: a test has either `run`, which may have `files`, or `imports`"],
    ),
    "test-imports": (
        {"tests": [{"name": "a", "imports": ["one==1", "-x"]}]},
        [
            "tests.0.imports: `-x` is not the name of a distribution",
            "tests.0.imports: `one==1` is not the name of a distribution",
        ],
    ),
    "test-nodes": (
        {"tests": [{"name": "a", "run": "x", "needs": ["slurm"], "nodes": 0}]},
        [f"tests.0.nodes: {pydantic_says('greater_than_equal', ge=1)}"],
    ),
    "test-nodes-without-slurm": (
        {"tests": [{"name": "a", "run": "x", "nodes": 2}]},
        ["tests.0: a test of several nodes runs in a job: `needs: [slurm]`"],
    ),
    "test-file-elsewhere": (
        {"tests": [{"name": "a", "run": "x", "files": ["../x"]}]},
        ["tests.0.files: `../x` is not the name of a file beside the recipe"],
    ),
    "test-needs": (
        {"tests": [{"name": "a", "run": "x", "needs": ["tpu"]}]},
        [f"tests.0.needs.0: {one_of('gpu', 'mpi', 'slurm', 'compiler')}"],
    ),
    "test-name": ({"tests": [{"name": "a\nb", "run": "x"}]}, [f"tests.0.name: {CONTROL}"]),
    "hidden-default": (
        {"hidden": True, "default": True},
        ["hidden: an entry cannot be hidden and the default at once"],
    ),
    "driver": (
        {"requires": {"nvidia_driver": "525.x"}},
        ["requires.nvidia_driver: `525.x` is not a version of digits and dots"],
    ),
    "glibc-newline": (
        {"requires": {"glibc": "2.28\n"}},
        ["requires.glibc: `2.28\\n` is not a version of digits and dots"],
    ),
    "capability": (
        {"requires": {"compute_capability": ["7.5", "sm_75"]}},
        ["requires.compute_capability: `sm_75` is not a compute capability such as 7.5, 9.0+PTX, 9.0a or 10.0f"],
    ),
    "cpu-level": (
        {"requires": {"cpu_level": "native"}},
        [f"requires.cpu_level: {one_of('x86-64', 'x86-64-v2', 'x86-64-v3', 'x86-64-v4', 'aarch64')}"],
    ),
    "deprecated-date": (
        {"deprecated": {"message": "m", "date": "soon"}},
        [f"deprecated.date: {pydantic_refuses(datetime.date, 'soon')}"],
    ),
    "variable-name": ({"environment": {"set": {"1A": "x"}}}, ["environment: `1A` is not a variable name"]),
    "variable-newline": ({"environment": {"append": {"A\n": ["x"]}}}, ["environment: `A\\n` is not a variable name"]),
    "value-line-break": ({"environment": {"set": {"A": "x\ny"}}}, [f"environment: {LINE_BREAK}"]),
    "value-dollar": ({"environment": {"set": {"A": "5$"}}}, [f"environment: `5$`: bad `$`; {KNOWN}"]),
    "value-unknown": (
        {"environment": {"set": {"A": "$PATH/x"}}},
        [f"environment: `$PATH/x`: unknown ['PATH']; {KNOWN}"],
    ),
    "function-name": (
        {"environment": {"functions": {"a-b": {"bash": "x"}}}},
        ["environment: `a-b` cannot be the name of a function"],
    ),
    "function-of-others": (
        {"environment": {"functions": {name: {"bash": "x"} for name in ("if", "module", "sudo")}}},
        [f"environment: `{name}` cannot be the name of a function" for name in ("if", "module", "sudo")],
    ),
    "function-braces": (
        {"environment": {"on_unload": {"bash": "x", "csh": "echo ${HOME}"}}},
        ["environment.on_unload: `csh`: csh opens braces, in quotes too: `${HOME}`"],
    ),
    "function-history": (
        {"environment": {"on_unload": {"bash": "x", "csh": "echo wow!x"}}},
        ["environment.on_unload: `csh`: csh reads `!x` as a line of its history"],
    ),
    "function-backslash": (
        {"environment": {"on_unload": {"bash": "x", "csh": "echo \\"}}},
        ["environment.on_unload: `csh`: a backslash at its end may quote what follows"],
    ),
    "accept-variable": (
        {"accept": {"variable:PAGER": "why"}},
        [f"accept: there is no rule `variable:PAGER`; known: {', '.join(sorted(RULES))}"],
    ),
    "function-quote": (
        {"environment": {"functions": {"f": {"bash": "x", "csh": "echo 'a'"}}}},
        ["environment: `csh` of f cannot hold `'`: Lmod makes an alias of it, between such quotes"],
    ),
    "function-lines": (
        {"environment": {"functions": {"f": {"bash": "x", "csh": "a\nb"}}}},
        ["environment.functions.f: `csh` must be one line"],
    ),
    "version-digits": (
        {"requires": {"glibc": f"2.{'9' * 10}"}},
        [f"requires.glibc: `2.{'9' * 10}` is not a version of digits and dots"],
    ),
    "function-empty": (
        {"environment": {"functions": {"f": {"bash": " \n"}}}},
        ["environment.functions.f: `bash` is empty"],
    ),
    "function-csh-only": (
        {"environment": {"functions": {"f": {"csh": "x"}}}},
        [f"environment.functions.f.bash: {pydantic_says('missing')}"],
    ),
    "function-and-variable": (
        {"environment": {"set": {"F": "1"}, "functions": {"F": {"bash": "x"}}}},
        ["environment: F cannot be a variable and a function: Lmod keeps one thing of a name"],
    ),
    "value-unknown-in-list": (
        {"environment": {"append": {"A": ["ok", "${prefix}"]}}},
        [f"environment: `${{prefix}}`: unknown ['prefix']; {KNOWN}"],
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_recipe_fault_is_told_with_its_field(tmp_path: Path, case: str) -> None:
    fields, expected = FAULTS[case]
    assert faults(tmp_path, **fields) == expected


def test_recipe_faults_are_all_told_at_once_each_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "backend: conda\ninputs: {}\ndepends:\n  - gcc\nrequires:\n  glibc: new\ntests:\n  - run: x\n    timeout: -1\n"
    )
    with pytest.raises(InputError) as caught:
        load_recipe(path)
    assert caught.value.render().splitlines() == [
        f"error[recipe-invalid]: {path} has 6 faults",
        f"  {path}:1: input: {pydantic_says('missing')}",
        f"  {path}:2: inputs: unknown field",
        f"  {path}:3: depends: `gcc` is not an entry (name/version)",
        f"  {path}:6: requires.glibc: `new` is not a version of digits and dots",
        f"  {path}:8: tests.0.name: {pydantic_says('missing')}",
        f"  {path}:9: tests.0.timeout: {pydantic_says('greater_than', gt=0)}",
    ]


def test_recipe_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match=pydantic_says("frozen_instance")):
        Recipe(backend="conda", input={}).backend = "other"  # type: ignore[misc]


def test_environment_accepts_dollars_and_what_it_can_fill_in() -> None:
    values = {"A": "$$", "B": "${root}/$name/${version}", "C": "", "D": "a  'quoted' \"too\" `id`"}
    assert Environment(set=values).set == values


@given(st.text())
def test_environment_value_that_is_accepted_can_be_filled_in(value: str) -> None:
    from string import Template

    try:
        Environment(set={"A": value})
    except ValidationError:
        return
    filled = Template(value).substitute(root="/r", name="n", version="v", HOME="/h", USER="u")
    assert not set(filled) & set("\n\r\0")


def test_software_reads_every_field(tmp_path: Path) -> None:
    path = tmp_path / "software.yaml"
    path.write_text(
        "description: |\n  Two\n  lines\nhomepage: https://example.org\nlicence: MIT\ncategory: ai\nacknowledge: NVIDIA-SLA\n"
    )
    assert load_software(path) == Software(
        description="Two\nlines\n",
        homepage="https://example.org",
        licence="MIT",
        category="ai",
        acknowledge="NVIDIA-SLA",
    )


@pytest.mark.parametrize("field", ["homepage", "licence", "category", "acknowledge"])
def test_software_field_must_be_one_line(tmp_path: Path, field: str) -> None:
    path = tmp_path / "software.yaml"
    path.write_text(json.dumps({"description": "d", field: "a\nb"}, indent=1))
    with pytest.raises(InputError) as caught:
        load_software(path)
    assert caught.value.context == (f"{path}:3: {field}: {CONTROL}",)


def test_software_needs_a_description(tmp_path: Path) -> None:
    path = tmp_path / "software.yaml"
    path.write_text("description: ''\n")
    with pytest.raises(InputError) as caught:
        load_software(path)
    assert caught.value.context == (f"{path}:1: description: {pydantic_says('string_too_short', min_length=1)}",)


def test_sort_key_orders_versions_as_people_expect() -> None:
    ordered = [
        "latest",
        "r2024b",
        "2.1rc1",
        "2.1",
        "2.1-cuda11.8",
        "2.1-cuda12.1",
        "2.9",
        "2.10",
        "2.10.1",
        "3",
        "2024a",
    ]
    shuffled = random.Random(1).sample(ordered, len(ordered))
    assert sorted(shuffled, key=sort_key) == ordered


@given(st.lists(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,12}", fullmatch=True)), st.randoms())
def test_sort_key_orders_whatever_is_a_version(versions: list[str], shuffler: random.Random) -> None:
    keys = [sort_key(v) for v in sorted(versions, key=sort_key)]
    shuffler.shuffle(versions)
    assert keys == [sort_key(v) for v in sorted(versions, key=sort_key)]
    assert all(a <= b for a, b in pairwise(keys))


FILES = [{"name": "a", "run": "cat one two", "files": ["one", "two"]}, {"name": "b", "run": "true"}]


def test_files_of_a_test_are_in_its_folder_and_nothing_is_taken_for_bash(tmp_path: Path) -> None:
    folder = tmp_path / "x/1.0"
    folder.mkdir(parents=True)
    (folder / "one").write_text("$HOME `id` \\\n'\"\nno end")
    (folder.parent / "one").write_text("of all versions: not this one")
    (folder.parent / "two").write_text("")
    tests = load_recipe(write(folder, tests=FILES)).tests
    assert [test.files for test in tests] == [("one", "two"), ()]
    assert tests[1].run == "true"
    home = tmp_path / "home"
    home.mkdir()
    done = subprocess.run(["bash", "-c", tests[0].run], cwd=home, capture_output=True, text=True, check=True)
    assert done.stdout == "$HOME `id` \\\n'\"\nno end\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "a file of a test of {} cannot be read"),
        (b"\xff", "a file of a test of {} cannot be read"),
        (b"a\0b", "a file of a test of {} is no text"),
        (b"a\nENVMGR_FILE\nb\n", "a file of a test of {} is no text"),
    ],
)
def test_file_that_is_missing_or_no_text_is_told(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = write(tmp_path, tests=FILES)
    (tmp_path / "two").write_text("x")
    if content is not None:
        (tmp_path / "one").write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_recipe(path)
    assert (caught.value.reference, caught.value.message) == ("recipe-invalid", reason.format(path))
    assert caught.value.context[0].startswith("one")


def test_files_that_versions_share_are_known(tmp_path: Path) -> None:
    folder = tmp_path / "x/1.0"
    folder.mkdir(parents=True)
    for path in (folder / "one", folder.parent / "one", folder.parent / "two"):
        path.write_text("x")
    assert shared_files(load_recipe(write(folder, tests=FILES)), folder) == [folder.parent / "two"]


def test_one_file_of_many_names_is_not_read_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "x/1.0"
    folder.mkdir(parents=True)
    names = [f"t{number}" for number in range(100)]
    path = write(folder, tests=[{"name": "a", "run": ":", "files": names}])
    (folder / "t0").write_text("x" * (1 << 19))
    for name in names[1:]:
        (folder / name).symlink_to("t0")
    read: list[Path] = []

    def counted(place: Path, *rest: Any, **more: Any) -> bytes:
        read.append(place)
        return read_bytes(place, *rest, **more)

    monkeypatch.setattr("envmgr.catalog.recipe.read_bytes", counted)
    with pytest.raises(InputError) as caught:
        load_recipe(path)
    assert caught.value.reference == "file-too-large"
    assert len(read) < 10
