"""The help: verbs in groups, each with an example that the command line understands and a page that is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from envmgr.cli.app import app
from tests.helpers.places import ROOT
from tests.helpers.verbs import VERBS

GROUPS = ["Start", "Build", "Publish", "Use", "Check", "Maintain"]


def said(*argv: str) -> str:
    done = CliRunner().invoke(app, [*argv], prog_name="envmgr")
    assert done.exit_code == 0
    return done.output


def rows(text: str) -> dict[str, tuple[str, str, str]]:
    """verb -> its group, what it does, its example."""
    found = {}
    for group, lines in re.findall(
        r"^(\w+):\n((?:  .*\n)+)", text.partition("Options:")[2].partition("\n\n")[2], re.MULTILINE
    ):
        for name, does, example in re.findall(r"^  (\S.*?)  +(\S.*)\n +(envmgr .*)\n", lines, re.MULTILINE):
            found[name] = (group, does, example)
    return found


def test_every_verb_is_in_one_group_with_an_example() -> None:
    found = rows(said("--help"))
    assert sorted(found) == sorted(VERBS)
    assert list(dict.fromkeys(group for group, _, _ in found.values())) == GROUPS
    assert [name for name, (_, _, example) in found.items() if not example.startswith(f"envmgr {name}")] == []


def test_groups_say_the_first_sentence_of_each_verb() -> None:
    first = {verb: (VERBS[verb].help or "").partition("\n")[0] for verb in VERBS}
    assert {name: does for name, (_, does, _) in rows(said("--help")).items()} == first


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_ends_with_an_example_that_is_understood_and_a_page_that_is_there(verb: str) -> None:
    text = said(*verb.split(), "--help")
    match = re.search(r"\n  Example: (.*)\n\n  Read more in (/\S+/docs/[a-z-]+\.md)\.\n\Z", text)
    assert match is not None
    example, page = match.groups()
    assert example == rows(said("--help"))[verb][2]
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


@pytest.mark.parametrize(("group", "page"), [("site", "docs/site.md"), ("catalog", "docs/recipe.md")])
def test_help_of_a_group_has_an_example_and_a_page_too(group: str, page: str) -> None:
    assert (
        said(group, "--help")
        .replace("in\n  ", "in ")
        .endswith(f"\n  Example: envmgr {group} check\n\n  Read more in {ROOT / page}.\n")
    )


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
