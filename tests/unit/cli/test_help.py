"""The help: verbs in groups, each with an example that the command line understands and a page that is there."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from envmgr.cli.app import VERBS as TABLE
from envmgr.cli.app import app
from tests.helpers.places import ROOT
from tests.helpers.verbs import VERBS

GROUPS = ["Start", "Build", "Publish", "Use", "Check", "Maintain"]


def said(*argv: str) -> str:
    done = CliRunner().invoke(app, [*argv], prog_name="envmgr")
    assert done.exit_code == 0
    return done.output


def test_help_shows_the_verbs_of_a_week_and_help_all_every_verb() -> None:
    assert list(TABLE) == list(VERBS)
    text = said("--help")
    shown = {name: f"  {row.example:36}  {row.about}\n" in text for name, row in TABLE.items()}
    assert [name for name, is_shown in shown.items() if is_shown] == [n for n, row in TABLE.items() if row.weekly]
    assert sum(shown.values()) == 20
    assert text.endswith("\n  `envmgr help --all` lists all verbs, and `envmgr VERB --help` explains one.\n")
    groups = json.loads(said("help", "--all", "--format", "json"))["groups"]
    assert list(groups) == GROUPS
    assert [row for rows in groups.values() for row in rows] == [[row.example, row.about] for row in TABLE.values()]
    lines = said("help").splitlines()
    assert "  rollback 12                        Make an earlier generation current." in lines
    assert [line for line in lines if line.startswith("  promote")] == []


def test_table_says_the_first_sentence_of_each_verb_and_an_example_of_it() -> None:
    first = {verb: (VERBS[verb].help or "").partition("\n")[0] for verb in VERBS}
    assert {name: row.about for name, row in TABLE.items()} == first
    assert [name for name, row in TABLE.items() if not row.example.startswith(name)] == []


def test_help_of_a_group_lists_its_verbs() -> None:
    text = said("user", "--help")
    assert "\nCommands:\n  create  Make an environment on a published entry.\n  list    List your" in text
    assert text.replace("in\n  ", "in ").endswith(
        f"\n  Example: envmgr user list\n\n  Read more in {ROOT / 'docs/users.md'}.\n"
    )


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_ends_with_an_example_that_is_understood_and_a_page_that_is_there(verb: str) -> None:
    text = said(*verb.split(), "--help")
    match = re.search(r"\n  Example: (.*)\n\n  Read more in (/\S+/docs/[a-z-]+\.md)\.\n\Z", text)
    assert match is not None
    example, page = match.groups()
    assert example == f"envmgr {TABLE[verb].example}"
    assert f"envmgr {verb.partition(' ')[0]}" in Path(page).read_text("utf-8")
    whole = typer.main.get_command(app)
    context = whole.make_context("envmgr", shlex.split(example)[1:])
    words = [*context._protected_args, *context.args]
    for name in verb.split():
        assert words[0] == name
        whole = whole.get_command(context, words.pop(0))
        context = whole.make_context(name, words, parent=context)
        words = [*getattr(context, "_protected_args", ()), *context.args]
    assert words == []


@pytest.mark.parametrize("wrong", ["build --job 4", "audit --node c1", "rollback twelve", "export --to reframe --yaml"])
def test_an_example_that_is_wrong_would_be_refused(wrong: str) -> None:
    whole = typer.main.get_command(app)
    name, *words = wrong.split()
    context = whole.make_context("envmgr", [name, *words])
    with pytest.raises(Exception, match=r"No such option|is not a valid|valid integer"):
        whole.get_command(context, name).make_context(name, words, parent=context)


def test_every_option_is_explained_by_a_sentence() -> None:
    """A text that begins with a capital letter, ends with a full stop, and has more than one word."""
    whole = typer.main.get_command(app)
    context = whole.make_context("envmgr", ["list"])
    fragments = []
    for verb in VERBS:
        command = whole
        for name in verb.split():
            command = command.get_command(context, name)
        for each in command.params:
            text = getattr(each, "help", None) or ""
            if not re.fullmatch(r"[A-Z].* .*\.", text):
                fragments.append((verb, each.name, text))
    assert fragments == []
