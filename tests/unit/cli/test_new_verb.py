"""A verb by CONTRIBUTING.md: its files, put into a copy of the package, are a verb that works."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.places import ROOT
from tests.helpers.waiting import DEADLINE

BLOCK = re.compile(r"```(?:python|text)\n# (envmgr/\S+)\n(.*?)```", re.DOTALL)
BELOW = "  list * "  # the row of the table below which the verb's row is put


def files_of_the_verb() -> dict[str, str]:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Adding a verb\n")[2].partition("\n## ")[0]
    return dict(BLOCK.findall(text))


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the verb in it, and a site with two entries."""
    copy = tmp_path_factory.mktemp("copy")
    for name in ("envmgr", "modulefiles", "nodesetup", "easyconfigs"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    files = files_of_the_verb()
    (copy / "envmgr/verbs/count.py").write_text(files["envmgr/verbs/count.py"], "utf-8")
    table = copy / "envmgr/cli/app.py"
    before, row, after = table.read_text("utf-8").partition(BELOW)
    table.write_text(f"{before}{files['envmgr/cli/app.py']}{row}{after}", "utf-8")
    for entry in ("hello/1.0", "hello/2.0"):
        recipe = copy / "recipes" / entry / "recipe.yaml"
        recipe.parent.mkdir(parents=True)
        recipe.write_text("backend: conda\n")
    (copy / "site.yaml").write_text(f"prefix: {copy / 'prefix'}\n")
    return copy


def run(copied: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(copied), "PYTHONPATH": str(copied), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "envmgr", *argv],
        cwd=copied,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )


def test_new_verb_is_in_the_list_of_all(copied: Path) -> None:
    assert list(files_of_the_verb()) == ["envmgr/verbs/count.py", "envmgr/cli/app.py"]
    assert re.search(
        r"^  count python +Count the entries of the catalogs\.$", run(copied, "help", "--all").stdout, re.MULTILINE
    )
    assert "Only entries of this name." in run(copied, "count", "--help").stdout


def test_new_verb_answers_as_text_and_as_json(copied: Path) -> None:
    done = run(copied, "count")
    assert (done.returncode, done.stdout, done.stderr) == (0, "2 entries\n", "")
    done = run(copied, "count", "hello", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"schema": "envmgr.count/1", "entries": 2}


def test_error_of_a_new_verb_is_told_in_the_house_form(copied: Path) -> None:
    done = run(copied, "count", "zlib")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == ("error[no-entries]: no catalog has such an entry\n\nhint: `envmgr list` shows all\n")
