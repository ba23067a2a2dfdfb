from __future__ import annotations

import dataclasses
import datetime
import json
import os
import pty
import subprocess
import sys
import typing
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from envmgr.catalog.locks import LockChange
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.recipe_parts import Deprecated
from envmgr.cli.render import print_error, print_json, print_table, to_data
from envmgr.errors import CommandError, EnvmgrError, InputError, Interrupted
from envmgr.publish.records import PublishedEntry
from envmgr.report import Finding, Result, Table
from envmgr.steps.verify_result import VerifyResult
from envmgr.verbs.schema import result_classes
from envmgr.verbs.shell_init import ShellInitResult
from tests.helpers.places import ROOT
from tests.helpers.waiting import DEADLINE

RESULTS = sorted(result_classes().values(), key=lambda kind: kind.__name__)
"""What a verb can return."""


def sample(kind: Any) -> Any:
    """A value of an annotation, with every list and dict holding one item and every option given."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return sample(next(a for a in arguments if a is not type(None)))
    if origin is Literal:
        return arguments[0]
    if origin is tuple:
        return (sample(arguments[0]),)
    if origin is list:
        return [sample(arguments[0])]
    if origin is not None and issubclass(origin, dict | typing.Mapping):
        return {sample(arguments[0]): sample(arguments[1])}
    if kind is Entry:
        return Entry("pytorch", "2.1")
    if kind is Path:
        return Path("/p")
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{f.name: sample(hints[f.name]) for f in dataclasses.fields(kind)})
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        hints = typing.get_type_hints(kind)
        return kind(**{(f.alias or name): sample(hints[name]) for name, f in kind.model_fields.items()})
    return {str: "text ä", int: 3, float: 0.5, bool: True, Any: "any", object: "any"}[kind]


@pytest.mark.parametrize("kind", RESULTS, ids=lambda k: k.__name__)
def test_every_result_becomes_json_and_comes_back(kind: type, capsys: pytest.CaptureFixture[str]) -> None:
    data = to_data(sample(kind))
    print_json(kind.schema, data)  # type: ignore[attr-defined]
    back = json.loads(capsys.readouterr().out)
    assert back.pop("schema") == kind.schema  # type: ignore[attr-defined]
    assert back == data
    assert list(back) == [f.name for f in dataclasses.fields(kind)]


def test_every_result_has_a_schema_of_its_own_with_a_version() -> None:
    schemas = [kind.schema for kind in RESULTS]  # type: ignore[attr-defined]
    assert len(schemas) >= 15
    assert len(set(schemas)) == len(schemas)
    assert all(s.startswith("envmgr.") and s.rpartition("/")[2].isdigit() for s in schemas)


def test_every_result_has_lines_of_its_own() -> None:
    assert [kind.__name__ for kind in RESULTS if "lines" not in vars(kind)] == []


def test_every_result_has_an_exit_code() -> None:
    assert [k.__name__ for k in RESULTS if Result not in k.__mro__] == []
    assert ShellInitResult("bash", "text").exit_code == 0
    assert VerifyResult(("a/1",), (Finding("install", "error", "a/1", "gone"),)).exit_code == 1


@pytest.mark.parametrize("value", [None, True, 3, 0.5, "text"])
def test_to_data_leaves_plain_values(value: object) -> None:
    assert to_data(value) is value


def test_to_data_makes_entries_and_paths_text() -> None:
    assert to_data({"e": Entry("a", "1"), "p": Path("/x/y"), Entry("b", "2"): [Path("z")]}) == {
        "e": "a/1",
        "p": "/x/y",
        "b/2": ["z"],
    }


def test_to_data_takes_models_with_their_written_names() -> None:
    published = PublishedEntry(digest="d", path="p", lock="l", fingerprint="f")
    assert to_data({"x": published}) == {
        "x": {"digest": "d", "path": "p", "lock": "l", "fingerprint": "f", "needs": []}
    }
    recipe = Recipe(
        backend="conda", input={}, deprecated=Deprecated(message="m", date=datetime.date(2027, 1, 2)), depends=("a/1",)
    )
    data = to_data((recipe,))[0]
    assert (data["schema"], data["deprecated"]["date"], data["depends"]) == (1, "2027-01-02", ["a/1"])


def test_to_data_takes_dataclasses_in_tuples() -> None:
    changes = (LockChange("zlib", "1.2", "1.3"), LockChange("xz", "", "5"))
    assert to_data(changes) == [{"name": "zlib", "old": "1.2", "new": "1.3"}, {"name": "xz", "old": "", "new": "5"}]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON)
def test_to_data_is_the_identity_on_json(value: Any) -> None:
    assert to_data(value) == value
    assert json.loads(json.dumps(to_data(value))) == value


def test_print_json_begins_with_the_schema_and_keeps_utf_8(capsys: pytest.CaptureFixture[str]) -> None:
    print_json("envmgr.x/1", {"a": ["ä"]})
    assert capsys.readouterr().out == '{\n "schema": "envmgr.x/1",\n "a": [\n  "ä"\n ]\n}\n'


ERRORS: list[tuple[EnvmgrError, dict[str, Any]]] = [
    (
        EnvmgrError("a-b", "the fact", context=["one", "two"], hint="do it", log="/l"),
        {"message": "the fact", "context": ["one", "two"], "hint": "do it", "log": "/l", "exit_code": 3},
    ),
    (InputError("bad", "fact", context="one"), {"message": "fact", "context": ["one"], "exit_code": 2}),
    (
        CommandError(["false", "x"], 1, "out", "err\n"),
        {"message": "`false x` failed: exit status 1", "context": ["err"], "exit_code": 3},
    ),
    (Interrupted(), {"message": "stopped by a signal", "exit_code": 130}),
]


@pytest.mark.parametrize(("error", "data"), ERRORS, ids=[e.reference for e, _ in ERRORS])
def test_print_error_as_json_is_data_on_stdout(
    error: EnvmgrError, data: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    print_error(error, "json")
    out, err = capsys.readouterr()
    common = {"schema": "envmgr.error/1", "reference": error.reference, "context": [], "hint": "", "log": ""}
    assert json.loads(out) == {**common, **data}
    assert err == ""


def test_print_error_as_text_is_talk_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(ERRORS[0][0], "table")
    assert capsys.readouterr() == ("", "error[a-b]: the fact\n  one\n  two\n  log: /l\n\nhint: do it\n")


def test_table_is_one_line_a_record_when_stdout_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    long = "word " * 60 + "end"
    print_table(Table([["a", long], ["bbb", "ä", "[bold]x[/bold]"], ["c"]], ["id", "text", "more"]))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"id   text{' ' * (len(long) - 4)}  more",
        f"a    {long}",
        f"bbb  ä{' ' * (len(long) - 1)}  [bold]x[/bold]",
        "c",
    ]


def test_table_without_rows_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(Table([], ["a"]))
    assert capsys.readouterr() == ("", "")


def test_table_is_folded_to_a_terminal() -> None:
    controller, terminal = pty.openpty()
    code = (
        "from envmgr.cli.render import Table, print_table; print_table(Table([['a', 'word ' * 20], ['b', '[bold]x']]))"
    )
    env = {**os.environ, "COLUMNS": "30", "TERM": "xterm"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, stdout=terminal, env=env, check=True, timeout=DEADLINE
    )
    os.close(terminal)
    text = os.read(controller, 65536).decode()
    os.close(controller)
    assert done.returncode == 0
    lines = text.splitlines()
    assert len(lines) >= 5
    assert all(len(line) <= 30 for line in lines)
    assert lines[-1].split() == ["b", "[bold]x"]
