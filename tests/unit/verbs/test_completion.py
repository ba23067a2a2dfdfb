"""Completion as shells do it: bash and zsh at a terminal, and fish, are asked what they offer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from envmgr.catalog.site import load_site
from envmgr.cli.app import app
from envmgr.errors import InputError
from envmgr.steps.verb_words import verb_words
from envmgr.store.prefix import Prefix
from envmgr.verbs.completion import completion_lines
from tests.helpers.tab import offered

SHELLS = ["bash", "zsh", "fish"]
GROUPS = "{gpu: {nodes: 'c[1-3]'}, big: {slurm: big}}"


def lines(folder: Path, shell: str, groups: str = GROUPS) -> str:
    """What `envmgr completion` prints, for a prefix with two entries and a user with two environments."""
    prefix = folder / "it's/sw"
    for name in ("pydata/1.0", "pydata/2.0", "hello/1.0"):
        (prefix / "current/modules" / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / f"current/modules/{name}.lua").touch()
    for name in ("mine", "plots"):
        (folder / ".local/share/envmgr/envs").mkdir(parents=True, exist_ok=True)
        (folder / f".local/share/envmgr/envs/{name}").touch()
    (folder / "site.yaml").write_text(f"prefix: /sw\nlogin_nodes: login\ngroups: {groups}\n")
    ctx: Any = SimpleNamespace(prefix=Prefix(prefix), site=load_site(folder / "site.yaml", {}))
    return completion_lines(ctx, shell, verb_words(typer.main.get_command(app))).text


OFFERED = {
    "envmgr rol": ["rollback"],
    "envmgr user rem": ["remove"],
    "envmgr --site site.yaml user rem": ["remove"],
    "cd /; X=1 envmgr his": ["history"],
    "envmgr audit --ver": ["--verbose"],
    "envmgr --form": ["--format"],
    "envmgr job pyd": ["pydata/1.0", "pydata/2.0"],
    "envmgr user create new --on h": ["hello/1.0"],
    "envmgr user create ": [],
    "envmgr user show ": ["mine", "plots"],
    "envmgr user remove mine ": [],
    "envmgr job --env pl": ["plots"],
    "envmgr audit --nodes ": ["@big", "@gpu", "c1", "c2", "c3", "login"],
    "envmgr node-setup --nodes @g": ["@gpu"],
    "envmgr audit --nodes @gpu,lo": ["@gpu,login"],
    "envmgr audit --nodes=@b": ["--nodes=@big"],
    "envmgr audit --via ": ["both", "slurm", "ssh"],
    "envmgr audit --format=p": ["--format=prometheus"],
    "envmgr audit --check node-": ["node-setup"],
    "envmgr shell-init tc": ["tcsh"],
    "envmgr build --jobs ": [],
    "envmgr history --site si": ["site.yaml"],
    "envmgr job pydata/1.0 -- si": ["site.yaml"],
    "envmgr job pydata/1.0 si": ["site.yaml"],
    "envmgr import si": ["site.yaml"],
    "envmgr fetch --file si": ["site.yaml"],
    "envmgr history --site=si": ["--site=site.yaml"],
    "envmgr export --to re": ["reframe", "requirements"],
    "envmgr import --from pix": ["pixi"],
    "envmgr build --no-g": ["--no-gate"],
}
"""What is typed, and what is offered in the place of its last word."""


@pytest.mark.parametrize("shell", SHELLS)
def test_each_word_is_completed_by_what_may_stand_there(tmp_path: Path, shell: str) -> None:
    text = lines(tmp_path, shell)
    assert offered(shell, text, OFFERED, tmp_path) == OFFERED


@pytest.mark.parametrize("shell", SHELLS)
def test_names_that_a_shell_could_run_are_neither_run_nor_offered(tmp_path: Path, shell: str) -> None:
    text = lines(tmp_path, shell, '{"$(touch ran)": {slurm: x}, "a\'b": {nodes: c1}, "`touch ran`": {slurm: x}}')
    own = tmp_path / "own/envmgr/envs"
    own.mkdir(parents=True)
    for name in ("$(touch ran)", "`touch ran`", "a b", "${IFS}", "a'b", "-n", "x\ny;z", "mine"):
        (tmp_path / f"it's/sw/current/modules/pydata/{name}.lua").touch()
        (own / name).touch()
    env = {"XDG_DATA_HOME": str(tmp_path / "own")}
    found = offered(shell, text, ["envmgr job pyd", "envmgr audit --nodes ", "envmgr user show m"], tmp_path, env)
    entries, nodes, environments = found.values()
    assert {*entries} == {f"pydata/{version}" for version in ("1.0", "2.0", "mine", "x", "-n")}
    assert nodes == ["c1", "login"]
    assert environments == ["mine"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_prefix_and_home_that_hang_offer_nothing_after_a_second(tmp_path: Path, shell: str) -> None:
    text = lines(tmp_path, shell)
    (tmp_path / "ls").write_text("#!/bin/sh\nsleep 1000\n")  # as if it waited for a file system
    (tmp_path / "ls").chmod(0o755)
    typed = ["envmgr stage ", "envmgr user show m"]
    found = offered(shell, text, typed, tmp_path, {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert found == {line: [] for line in typed}


def test_first_thousand_nodes_are_named_and_a_set_that_is_none_is_left_out(tmp_path: Path) -> None:
    text = lines(tmp_path, "bash", "{all: {nodes: 'n[1-5000]'}, odd: {nodes: 'n[1-'}}")
    assert " n998" in text
    assert " n999" not in text
    assert "login" not in text.partition("nodes=")[2].partition("\n")[0]
    assert len(text) < 50_000


def test_another_shell_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no lines for the shell `csh`"):
        lines(tmp_path, "csh")
