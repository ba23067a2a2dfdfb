"""What the narrowed command line says is what the whole one says."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from envmgr.cli.app import app, narrowed
from tests.helpers.verbs import VERBS

LINES = [
    [],
    ["--help"],
    ["-h"],
    ["--version"],
    ["--nonsense"],
    ["buidl"],
    ["buidl", "--help"],
    ["build", "--nonsense"],
    ["build", "-j", "0"],
    ["diff", "a", "b"],
    ["site"],
    ["site", "--help"],
    ["site", "chekc"],
    ["catalog"],
    ["show"],
    ["--version", "build"],
    ["_build-item", "--help"],
    ["--help", "build"],
    [""],
    ["Build"],
    ["sit"],
    ["list_"],
    *([*verb.split(), "--help"] for verb in VERBS),
]


@pytest.mark.parametrize("argv", LINES, ids=" ".join)
def test_what_is_said_is_the_same(argv: list[str]) -> None:
    def said(which: Any) -> tuple[int, str]:
        done = CliRunner().invoke(which, argv, prog_name="envmgr")
        return done.exit_code, done.output

    assert said(narrowed(app, argv)) == said(app)


@pytest.mark.parametrize("verb", VERBS)
def test_only_the_verb_that_runs_is_read(verb: str) -> None:
    before = list(app.registered_commands), list(app.registered_groups)
    found = narrowed(app, verb.split())
    assert len(found.registered_commands) + len(found.registered_groups) == 1
    assert (app.registered_commands, app.registered_groups) == before
