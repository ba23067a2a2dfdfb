"""Commands of the system that an install may not hide."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.backends.container.input import ALWAYS
from envmgr.builds.install import require_none_hidden
from envmgr.catalog.names import Entry, parse_entry
from envmgr.catalog.recipe import Recipe, load_recipe
from envmgr.catalog.shell_rules import COMMANDS
from envmgr.errors import EnvmgrError
from envmgr.modules.spec import EnvOp
from tests.helpers.shipped import ROOT


@pytest.mark.parametrize("entry", ["pytorch-ngc/24.08", "tensorflow-ngc/24.08"])
def test_nothing_that_a_shipped_image_brings_is_refused(entry: str, tmp_path: Path) -> None:
    recipe = load_recipe(ROOT / entry / "recipe.yaml")
    for name in (*recipe.input["commands"], *ALWAYS):
        (tmp_path / name).touch()
    environment = [EnvOp(kind="prepend", name="PATH", value=str(tmp_path))]
    require_none_hidden(parse_entry(entry), environment, recipe, tmp_path)


def test_what_the_recipe_itself_puts_on_path_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "libexec").mkdir()
    (tmp_path / "libexec/ssh").touch()
    fields = {"backend": "wheels", "input": {}, "environment": {"prepend": {"PATH": ["${root}/libexec"]}}}
    recipe = Recipe.model_validate(fields)
    with pytest.raises(EnvmgrError, match="hides commands of the system or of shells: ssh"):
        require_none_hidden(Entry("some", "1.0"), (), recipe, tmp_path)
    accepted = Recipe.model_validate({**fields, "accept": {"hidden-commands": "ssh: a newer one"}})
    require_none_hidden(Entry("some", "1.0"), (), accepted, tmp_path)


def test_what_guards_an_account_starts_jobs_or_is_a_shell_is_in_the_table() -> None:
    guarded = "sudo su ssh scp sftp login passwd module ml cd ls grep find echo test command exit export source eval sbatch srun salloc scancel squeue"
    assert {*guarded.split(), *["envmgr", "mount", "kill", "sh", "bash", "csh", "zsh"]} <= COMMANDS
