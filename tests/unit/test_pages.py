"""Each command of README and docs is typed by a test, or says in the page's source why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from envmgr.backends import get_backend
from envmgr.catalog.recipe import Recipe
from tests.helpers import pages
from tests.helpers.pages import PAGES, TYPED, Block, agrees, blocks, to_type
from tests.helpers.places import ROOT

RECIPE = re.compile(r"schema: 1$|backend: ")


def test_each_page_with_commands_is_typed_by_a_test() -> None:
    assert [page for page in PAGES if to_type(page)] == sorted(TYPED, key=PAGES.index)
    assert [page for page, file in TYPED.items() if "to_type(" not in (ROOT / file).read_text("utf-8")] == []


@pytest.mark.parametrize("page", PAGES)
def test_mark_names_a_file_of_tests_or_a_reason(page: str) -> None:
    marked = [block for block in blocks(page) if block.mark]
    assert [str(block) for block in marked if not block.commands] == []
    assert [str(block) for block in marked if block.typed_by and not (ROOT / block.mark).is_file()] == []
    assert [str(block) for block in marked if len(block.mark.split()) < (1 if block.typed_by else 4)] == []


SENTENCES = ("docs/jobs.md", "docs/recipe.md", "docs/wheels.md")


@pytest.mark.parametrize("page", SENTENCES)
def test_each_section_names_the_tests_of_its_sentences_or_is_a_list_of_limits(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    sections = re.findall(r"^#+ (.+)\n\n(.*)\n", text, re.MULTILINE)
    assert len(sections) == len(re.findall(r"^#+ ", text, re.MULTILINE))
    named = {heading: re.fullmatch(r"<!-- tests: (.+) -->", first) for heading, first in sections}
    assert [heading for heading, found in named.items() if not found] == ["Limits"] * (page != "docs/recipe.md")
    files = [file for found in named.values() if found for file in found[1].split()]
    assert [file for file in files if not (ROOT / "tests" / file).is_file()] == []


@pytest.mark.parametrize("block", [b for page in PAGES for b in blocks(page) if RECIPE.match(b.lines[0])], ids=str)
def test_recipe_of_a_page_is_one(block: Block) -> None:
    text = "\n".join(block.lines).replace("…", "f" * 64)
    recipe = Recipe.model_validate({"schema": 1, **yaml.safe_load(text)})
    assert get_backend(recipe.backend).input.model_validate(recipe.input)


PAGE = """\
# Title

Words.

    $ envmgr lock a/1
    …
    locked

- an item

    which goes on

## Marked

<!-- not typed, this section: it needs a moon -->

    [alice@c1]$ cat >x <<'END'
    [root@login]$ no prompt
    END
    [alice@c1]$ true
    told

    schema: 1

<!-- typed by: tests/unit/test_pages.py -->

    ls    # a comment
    envmgr --help \\
        --site x
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Block]:
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(PAGE)
    return blocks("page.md")


def test_blocks_have_their_section_mark_and_steps(page: list[Block]) -> None:
    assert [(b.section, b.line, b.mark, b.typed_by, b.commands) for b in page] == [
        ("Title", 5, "", False, True),
        ("Marked", 17, "it needs a moon", False, True),
        ("Marked", 27, "tests/unit/test_pages.py", True, True),
    ]
    steps = [[(s.user, s.node, s.command, s.output) for s in b.steps] for b in page]
    assert steps == [
        [("root", "login", "envmgr lock a/1", ("…", "locked"))],
        [
            ("alice", "c1", "cat >x <<'END'\n[root@login]$ no prompt\nEND", None),
            ("alice", "c1", "true", ("told", "", "schema: 1")),
        ],
        [("root", "login", "ls    # a comment", None), ("root", "login", "envmgr --help \\\n    --site x", None)],
    ]


@pytest.mark.parametrize(
    ("shown", "said", "same"),
    [
        (["a", "b"], "a\nb", True),
        (["a", "", "b"], "a\nb\n", True),
        (["a", "b"], "a\nb\nc", False),
        (["a", "b"], "x\na\nb", False),
        (["…", "b"], "a\nb", True),
        (["…", "b"], "b", True),
        (["a", "…"], "a\nb\nc", True),
        (["a", "…", "c"], "a\nc\nd", False),
        (["built in 3.1 s, x-0123abcd"], "built in 12 s, x-fedcba98", True),
        (["built by alice"], "built by bob", False),
        (["/cluster/sw, …"], "/cluster/sw, 7 GB free", True),
    ],
)
def test_output_agrees_where_only_times_digests_and_what_is_left_out_differ(
    shown: list[str], said: str, same: bool
) -> None:
    assert agrees(shown, said) is same
