"""The shipped pipelines: their form, and each command of ours in them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.places import ROOT
from tests.helpers.verbs import VERBS

FOLDER = ROOT / "contrib/ci"
FILES = sorted(path.name for path in FOLDER.iterdir())
FORMS = {"gitlab-ci.yml": "vendor.gitlab-ci", "github-workflow.yml": "vendor.github-workflows"}
PROGRAM = Path(sys.executable).with_name("check-jsonschema")


def test_each_file_is_looked_at() -> None:
    assert FILES == [
        "Jenkinsfile",
        "github-workflow.yml",
        "gitlab-ci.yml",
        "post-receive",
    ]  # the last by shellcheck, too


def valid(path: Path, form: str) -> bool:
    argv = [PROGRAM, "--builtin-schema", form, path]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", FORMS)
def test_pipeline_is_one_by_the_schema_of_its_host(name: str, tmp_path: Path) -> None:
    assert valid(FOLDER / name, FORMS[name])
    wrong = tmp_path / name
    wrong.write_text((FOLDER / name).read_text().replace("script:", "scripts:").replace("runs-on:", "runs-in:"))
    assert not valid(wrong, FORMS[name])


def test_jenkinsfile_is_balanced_and_has_its_sections() -> None:
    text = re.sub(r"//.*|'[^']*'", "", (FOLDER / "Jenkinsfile").read_text())
    depth = 0
    for sign in re.findall(r"[{}]", text):
        depth += 1 if sign == "{" else -1
        assert depth >= 0
    assert depth == 0
    assert re.findall(r"^    (\w+) \{", text, re.MULTILINE) == ["options", "stages"]


def test_jenkins_takes_an_agent_only_for_a_stage_that_runs() -> None:
    """Else the job of a change waits for an agent that only main gets."""
    text = (FOLDER / "Jenkinsfile").read_text()
    assert re.findall(r"when \{ (.*) \}", text) == [
        "beforeAgent true; changeRequest()",
        "beforeAgent true; branch 'main'",
    ]


@pytest.mark.parametrize("name", FILES)
def test_commands_of_ours_are_some(name: str) -> None:
    text = (FOLDER / name).read_text()
    found = re.findall(r"(?:\benvmgr|^\s*\$command) ((?:apply|report)\b[^|&'`\n]*)", text, re.MULTILINE)
    assert found
    for line in found:
        verb, *words = line.split()
        options = {option for parameter in VERBS[verb].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, line
