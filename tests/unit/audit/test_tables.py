"""The tables of checks: what they declare is what shell text reports, and every template gets its values."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

from envmgr.audit import checks, table
from envmgr.audit import judge as engine
from envmgr.audit.checks import all_checks
from envmgr.audit.model import Check
from envmgr.audit.table import ENGINE, CheckTable, Fact, Words, read_table
from envmgr.system.shelltext import quote
from tests.helpers.evidence import is_declared, keys

FOLDER = Path(checks.__path__[0])
CHECKS = all_checks()
TABLES = [pytest.param(check.table, id=name) for name, check in CHECKS.items()]
GIVEN = {"user", "prefix", "nodes"}  # by the engine, to every row
SAID = [path.read_text() for part in ("audit", "probe") for path in (FOLDER.parents[1] / part).rglob("*.sh")]


def facts_of(table: CheckTable) -> dict[str, Fact]:
    return {**table.node, **table.prefix, **table.context, **table.login}


def placeholders(*templates: str) -> set[str]:
    return {name for text in templates for _, name, _, _ in Formatter().parse(text) if name is not None}


def templates(row: Words) -> tuple[str, ...]:
    return row.where, row.found, row.expected, *row.hint.model_dump().values(), row.cause


def says(check: Check) -> Iterator[tuple[str, set[str]]]:
    """Each use of a row in a check's module, with the values that it is given; `` for one that is chosen when it runs."""
    modules = [FOLDER / f"{check.table.part}.py"]
    for node in (node for path in modules for node in ast.walk(ast.parse(path.read_text()))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "say":
            row = node.args[0]
            chosen = [row.body, row.orelse] if isinstance(row, ast.IfExp) else [row]
            for each in chosen:
                name = each.value if isinstance(each, ast.Constant) else ""
                yield str(name), {keyword.arg or "" for keyword in node.keywords}


@pytest.mark.parametrize("given", [*TABLES, pytest.param(ENGINE, id="engine")])
def test_every_fact_has_one_meaning(given: CheckTable) -> None:
    for key, fact in facts_of(given).items():
        assert len([said for said in (fact.text, fact.number, fact.flag, fact.lines) if said]) == 1, key


@pytest.mark.parametrize("given", [*TABLES, pytest.param(ENGINE, id="engine")])
def test_every_row_has_one_severity_and_words_that_can_be_filled_in(given: CheckTable) -> None:
    for key, fact in facts_of(given).items():
        assert len([said for said in (fact.error, fact.warning, fact.note) if said]) <= 1, key
        known = GIVEN | {"value", "name", *fact.fields}
        assert placeholders(*templates(fact)) <= known, key
    for name, row in given.rows.items():
        assert len([said for said in (row.error, row.warning, row.note) if said]) == 1, name


@pytest.mark.parametrize("check", [pytest.param(check, id=name) for name, check in CHECKS.items()])
def test_every_row_is_said_with_all_of_its_values(check: Check) -> None:
    said = list(says(check))
    named = {name for name, _ in said if name}
    assert named <= {*check.table.rows}
    assert named == {*check.table.rows} or "" in dict(said)
    for name, row in check.table.rows.items():
        wanted = placeholders(*templates(row)) - GIVEN
        if name in named:
            assert [values for said_name, values in said if said_name == name and not wanted <= values] == [], name
        else:
            assert [values for said_name, values in said if not said_name and wanted <= values], name


# Of a command in a hint: what the engine, the site or the code gives as words for a shell.
WHOLE = {"away", "clean", "command", "entry", "mode", "name", "nodes", "numbers", "show", "umounts"}


@pytest.mark.parametrize("given", TABLES)
def test_what_nodes_say_is_quoted_in_the_commands_of_hints(given: CheckTable) -> None:
    for key, row in {**facts_of(given), **given.rows}.items():
        fields = [(name, how) for _, name, _, how in Formatter().parse(row.hint.run) if name is not None]
        assert [name for name, how in fields if how != "q" and name not in WHOLE] == [], key


def test_engine_says_each_of_its_rows() -> None:
    said = {*literals(Path(engine.__file__))}
    assert {*ENGINE.rows} <= said


@pytest.mark.parametrize("given", TABLES)
def test_what_a_check_reads_of_others_is_declared_by_them(given: CheckTable) -> None:
    others = [check.table for check in CHECKS.values() if check.table is not given]
    assert [key for key in given.reads if not is_declared(key, *others)] == []


@pytest.mark.parametrize("given", TABLES)
def test_every_fact_is_reported_by_a_shell_text(given: CheckTable) -> None:
    for key in facts_of(given):
        fixed = key.partition("*")[0]
        filled_in = (
            f"{key.rpartition('.')[0]}.$",
            f"$1{fixed.removeprefix(given.part)}",
        )  # its last word, or the check's name
        assert any(f"{mark}{word}" in text for text in SAID for word in (fixed, *filled_in) for mark in ' "@|}~'), key


def literals(path: Path) -> Iterator[str]:
    """The strings of a module; of an f-string, its text with `{}` for each value."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)


@pytest.mark.parametrize("given", TABLES)
def test_check_may_read_every_fact_that_its_module_names(given: CheckTable) -> None:
    every = {key for check in CHECKS.values() for key in keys(check.table)}
    may = given.model_copy(update={"node": {**given.node, **dict.fromkeys(given.reads, Fact())}})
    for text in literals(FOLDER / f"{given.part}.py"):
        key = text.removeprefix("{}")
        if (key in every and (key != text or "." in key)) or re.fullmatch(
            rf"{given.part}\.[a-z_.]*[a-z_](\.\{{\}})?", text
        ):
            assert is_declared(key.replace("{}", "x"), may), text


def test_words_are_filled_in_for_shells_and_lists() -> None:
    said = table.fill("{a!q} {b!w} {d!h} {e:.3}", {"a": "x y", "b": "a  b", "d": " a \n", "e": "12345"})
    assert said == f"{quote('x y')} a, b a 123"


def test_field_that_a_row_does_not_have_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "kernel.yaml"
    file.write_text("node:\n  kernel.release: {text: the kernel that runs, warnign: old}\n")
    with pytest.raises(ValueError, match="warnign"):
        read_table(file)
