"""Shell and Lua beside their modules: each file is read by its module, and a value stays one word."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envmgr.system.shelltext import assign, quote, script_text, words
from tests.helpers.places import ROOT
from tools import check_scripts

PACKAGE = ROOT / "envmgr"
TEXTS = (".sh", ".lua", ".csh", ".fish")


def read_by_modules() -> set[Path]:
    """The files that calls of `script_text(__file__, PART)` and `scripts(__file__, STAGE, …)` name."""
    found = set()
    for module in PACKAGE.rglob("*.py"):
        for call in (n for n in ast.walk(ast.parse(module.read_text("utf-8"))) if isinstance(n, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id == "script_text":
                part = call.args[1]
                if isinstance(part, ast.Constant):
                    found.add(module.with_suffix(f".{part.value}"))
                else:  # here.py: the need's name
                    found |= set(module.parent.glob(f"{module.stem}.*.sh"))
            if isinstance(call.func, ast.Name) and call.func.id == "scripts":
                stages = [stage.value for stage in call.args[1:] if isinstance(stage, ast.Constant)]
                found |= {module.with_suffix(f".{stage}.sh") for stage in stages}
    return found


def test_every_text_is_read_by_its_module_and_is_there() -> None:
    there = {path for path in PACKAGE.rglob("*") if path.suffix in TEXTS}
    assert read_by_modules() == there
    assert len(there) > 40


def test_no_module_has_lines_of_shell_or_lua_in_a_string() -> None:
    """The words that begin a statement there; a line or two of glue is no text."""
    begins = (
        "fi",
        "done",
        "esac",
        "local ",
        "function ",
        "while ",
        "for ",
        "if [",
        "case ",
        "trap ",
        "setenv ",
        "exec ",
    )
    for module in PACKAGE.rglob("*.py"):
        tree = ast.parse(module.read_text("utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                lines = [line.strip() for line in node.value.splitlines()]
                statements = [line for line in lines if line.startswith(begins) or line in begins]
                shell = len(lines) > 3 and len(statements) > 2 and "import " not in node.value
                assert not shell, f"{module}:{node.lineno}"


def test_comments_at_the_head_stay_here(tmp_path: Path) -> None:
    (tmp_path / "x.part.sh").write_text("# shellcheck shell=sh\n# For readers.\n\necho '\n# said'\n# and this\n")
    (tmp_path / "x.lua").write_text("-- For readers.\n\nprint(1)\n")
    assert script_text(str(tmp_path / "x.py"), "part.sh") == "echo '\n# said'\n# and this\n"
    assert script_text(str(tmp_path / "x.py"), "lua") == "print(1)\n"


def said(shell: str, script: str) -> bytes:
    return subprocess.run(
        [shell, "-s"], input=script.encode("utf-8", "surrogateescape"), capture_output=True, check=True
    ).stdout


@pytest.mark.parametrize("shell", ["dash", "bash"])
@settings(max_examples=40)  # two processes each
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_a_value_is_one_word_whatever_is_in_it(shell: str, text: str) -> None:
    kept = text.replace("\0", "").encode()
    assert (
        said(shell, f"{assign(value=text)}printf '%s|' \"$value\" {words(text, 'b c')}")
        == kept + b"|" + kept + b"|b c|"
    )


def test_a_sequence_is_an_array_of_bash() -> None:
    assert said("bash", assign(value=("a b", "", "c'd")) + "printf '%s|' \"${value[@]}\"") == b"a b||c'd|"


def test_numbers_and_empty_texts() -> None:
    assert assign(limit=5, name="", path="/a b") == "limit=5\nname=''\npath='/a b'\n"
    assert quote("a\0b") == "ab"


def test_all_shell_files_of_the_project_are_checked() -> None:
    names = {str(path.relative_to(ROOT)) for path in check_scripts.shell_files()}
    assert {".ci/run", "nodesetup/pin", "nodesetup/profile.sh", "tools/ensure", "envmgr/system/run.guard.sh"} <= names
    assert not any(name.startswith("tests/.cache") for name in names)


def test_shellcheck_finds_a_variable_that_nobody_sets(tmp_path: Path) -> None:
    file = tmp_path / "x.sh"
    file.write_text('# shellcheck shell=sh\necho "$nobody"\n')
    done = subprocess.run([check_scripts.program(), "-f", "gcc", file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (
        1,
        f"{file}:2:7: warning: nobody is referenced but not assigned. [SC2154]\n",
    )
