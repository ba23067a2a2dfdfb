"""A check, a format and a tool to export for, added as CONTRIBUTING.md says to a copy of the package, by the command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from envmgr.audit.model import Check, Want
from envmgr.audit.table import CheckTable, Fact
from envmgr.backends import Backend, LoadedLock
from tests.helpers.contributing import copy_with
from tests.helpers.done import Done
from tests.helpers.places import ROOT
from tests.helpers.waiting import DEADLINE


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    assert copy_with(
        folder, "envmgr/audit/checks/kernel.", "envmgr/audit/formats/tsv.", "envmgr/steps/export/words."
    ) == [
        "envmgr/audit/checks/kernel.node.sh",
        "envmgr/audit/checks/kernel.py",
        "envmgr/audit/checks/kernel.yaml",
        "envmgr/audit/formats/tsv.py",
        "envmgr/steps/export/words.py",
    ]
    return folder


def envmgr(copy: Path, *argv: str) -> Done:
    environ = {"PATH": os.environ["PATH"], "HOME": str(copy), "PYTHONPATH": str(copy)}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "envmgr", *argv],
        env=environ,
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def test_table_of_a_backend_has_the_parts_that_every_one_has() -> None:
    told = re.findall(r"^\| `(\w+\.\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE)
    required = {f"{kind.__name__}.{name}" for kind in (Backend, LoadedLock) for name in kind.__abstractmethods__}
    assert sorted(told) == sorted(required | {"Backend.input"})


def test_new_check_is_explained(copy: Path) -> None:
    done = envmgr(copy, "audit", "--explain", "kernel")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout == (
        "Every node runs the kernel that this host runs.\n\nA node that was not started again after an update runs an old "
        "kernel, and drivers built for the new one do not load there.\n"
    )


def rows(text: str) -> list[str]:
    """The fields that a page's tables name in their first column."""
    first = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", text, re.MULTILINE)
    return [name for cell in first for name in re.findall(r"`(\w+)`", cell)]


def test_every_field_of_a_check_has_its_row() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## Adding a check")[2].partition("## Adding a format")[0]
    of_check, of_fact = text.split("### The table of a check")
    filled_in = {"table", "text"}  # by the engine, from the module
    assert sorted(rows(of_check)) == sorted({field.name for field in fields(Check)} - filled_in)
    kinds = {"text", "number", "flag", "lines"}
    assert sorted(rows(of_fact)) == sorted(
        {*CheckTable.model_fields, *Fact.model_fields} - {"part"} - kinds - {"node", "prefix", "context", "login"}
    )
    wants = re.findall(r"`(\w+)`", next(line for line in text.splitlines() if line.startswith("| `wants`")))
    assert {*wants[1:]} == {*get_args(Want)}


def test_new_check_is_among_those_that_are_known(copy: Path) -> None:
    done = envmgr(copy, "audit", "--explain", "kernl")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == "error[unknown-check]: there is no check `kernl`\n\nhint: did you mean kernel?\n"


def test_new_format_is_one_of_the_choices_and_tells_a_failure(copy: Path) -> None:
    told = envmgr(copy, "audit", "--help").stdout  # brackets and ends of lines are typer's
    assert "table|json|deepops|ganglia|junit|prometheus|tsv" in "".join(told.split())
    done = envmgr(copy, "audit", "--format", "tsv", "--explain", "kernl")
    assert (done.code, done.stdout) == (2, "error\tunknown-check\n")


def test_new_tool_is_among_those_that_are_known_and_writes_its_file(copy: Path) -> None:
    done = envmgr(copy, "export", "--to", "wrods")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.endswith(
        "error[unknown-exchange]: nothing is written for `wrods`\n\nhint: did you mean words?\n"
    )
    code = (
        "from envmgr.steps.export import Cluster, get_exporter\n"
        "print(repr(get_exporter('words').cluster_text(Cluster('lab', '/sw', 1, (), (), ()))))"
    )
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(copy)}
    told = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environ, cwd=copy, capture_output=True, text=True, check=False
    )
    assert (told.stdout, told.stderr) == ("''\n", "")


def test_new_files_pass_the_projects_own_checks(copy: Path) -> None:
    programs = Path(sys.executable).parent
    names = ("audit/checks/kernel.py", "steps/export/words.py", "audit/formats/tsv.py")
    added = [copy / "envmgr" / name for name in names]
    for argv in (
        ["ruff", "check", "--config", ROOT / "pyproject.toml", *added],
        ["ruff", "format", "--check", "--config", ROOT / "pyproject.toml", *added],
        ["shellcheck", "--shell=sh", copy / "envmgr/audit/checks/kernel.node.sh"],
    ):
        done = subprocess.run([programs / argv[0], *argv[1:]], capture_output=True, text=True, check=False, cwd=copy)
        assert done.returncode == 0, done.stdout + done.stderr
