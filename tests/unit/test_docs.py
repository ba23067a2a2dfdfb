"""The documentation against the code: every error reference and every field of a model is explained, and none beside them."""

from __future__ import annotations

import re
import tomllib

import pytest
from pydantic import BaseModel

from envmgr.backends.conda.models import Channel, CondaInput, CondaSettings
from envmgr.backends.container.input import ContainerInput, ContainerSettings
from envmgr.backends.easybuild.settings import EasyBuildInput, EasyBuildSettings
from envmgr.backends.existing.models import ExistingInput
from envmgr.backends.spack.models import SpackInput, SpackSettings
from envmgr.backends.wheels.input import Patch, WheelsInput
from envmgr.catalog.environment import Environment, ShellText
from envmgr.catalog.recipe import Recipe, Software
from envmgr.catalog.recipe_parts import Deprecated, Requires, SmokeTest
from envmgr.catalog.site_file import (
    Audit,
    ImageSettings,
    LmodSettings,
    Mount,
    NodeGroup,
    Policies,
    Signing,
    SiteFile,
    SlurmSettings,
    Sources,
    Staging,
    Transport,
    UserSettings,
)
from envmgr.cli import app
from envmgr.wheels.settings import Index, WheelsSettings
from tests.helpers.places import ROOT
from tools import check_words
from tools.docs.references import errors_in_code
from tools.json_page import PAGE, page

DOCS = ROOT / "docs"


def documented_references() -> dict[str, set[int]]:
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (\d+) \|", (DOCS / "errors.md").read_text("utf-8"), re.MULTILINE)
    assert len(rows) == len(dict(rows)), "a reference has two rows"
    return {name: {int(code)} for name, code in rows}


def test_errors_page_has_every_reference_with_its_exit_code() -> None:
    page = documented_references()
    code = {name: {code for _, code in places} for name, places in errors_in_code().items()}
    assert len(code) > 50
    assert code.keys() - page.keys() == set()
    assert page.keys() - code.keys() == set()
    assert {name: codes for name, codes in code.items() if codes != page[name]} == {}


def test_errors_page_is_sorted() -> None:
    names = list(documented_references())
    assert names == sorted(names)


@pytest.mark.parametrize(
    ("page", "model", "prefix"),
    [
        ("site.md", SiteFile, ""),
        ("site.md", NodeGroup, "groups.NAME."),
        ("site.md", Transport, "transport."),
        ("site.md", Mount, "mount."),
        ("site.md", Audit, "audit."),
        ("site.md", CondaSettings, "backends.conda."),
        ("site.md", Channel, "backends.conda.channels.NAME."),
        ("site.md", EasyBuildSettings, "backends.easybuild."),
        ("site.md", ContainerSettings, "backends.container."),
        ("site.md", SpackSettings, "backends.spack."),
        ("site.md", WheelsSettings, "backends.wheels."),
        ("site.md", Index, "backends.wheels.indexes.NAME."),
        ("site.md", Sources, "sources."),
        ("site.md", Policies, "policies."),
        ("site.md", LmodSettings, "lmod."),
        ("site.md", SlurmSettings, "slurm."),
        ("site.md", Signing, "signing."),
        ("site.md", UserSettings, "users."),
        ("site.md", ImageSettings, "images."),
        ("site.md", Staging, "staging."),
        ("recipe.md", Software, ""),
        ("recipe.md", Recipe, ""),
        ("recipe.md", CondaInput, "input."),
        ("recipe.md", EasyBuildInput, "input."),
        ("recipe.md", WheelsInput, "input."),
        ("recipe.md", ContainerInput, "input."),
        ("recipe.md", SpackInput, "input."),
        ("recipe.md", Patch, "input.patches[]."),
        ("recipe.md", Environment, "environment."),
        ("recipe.md", ShellText, "environment.on_unload."),
        ("recipe.md", Requires, "requires."),
        ("recipe.md", SmokeTest, "tests[]."),
        ("recipe.md", Deprecated, "deprecated."),
    ],
)
def test_page_has_a_row_for_every_field(page: str, model: type[BaseModel], prefix: str) -> None:
    rows = set(re.findall(r"^\| `([^`]+)` \|", (DOCS / page).read_text("utf-8"), re.MULTILINE))
    fields = {f"{prefix}{field.alias or name}" for name, field in model.model_fields.items()}
    assert fields - rows == set()


@pytest.mark.parametrize(
    ("page", "models"),
    [
        (
            "site.md",
            {
                "": [SiteFile],
                "groups.NAME.": [NodeGroup],
                "transport.": [Transport],
                "mount.": [Mount],
                "audit.": [Audit],
                "backends.conda.": [CondaSettings],
                "backends.conda.channels.NAME.": [Channel],
                "backends.easybuild.": [EasyBuildSettings],
                "backends.wheels.": [WheelsSettings],
                "backends.container.": [ContainerSettings],
                "backends.spack.": [SpackSettings],
                "backends.wheels.indexes.NAME.": [Index],
                "sources.": [Sources],
                "policies.": [Policies],
                "lmod.": [LmodSettings],
                "slurm.": [SlurmSettings],
                "signing.": [Signing],
                "users.": [UserSettings],
                "images.": [ImageSettings],
                "staging.": [Staging],
            },
        ),
        (
            "recipe.md",
            {
                "": [Software, Recipe],
                "input.": [CondaInput, ContainerInput, EasyBuildInput, ExistingInput, SpackInput, WheelsInput],
                "input.patches[].": [Patch],
                "environment.": [Environment],
                "environment.on_unload.": [ShellText],
                "requires.": [Requires],
                "tests[].": [SmokeTest],
                "deprecated.": [Deprecated],
            },
        ),
    ],
)
def test_page_has_no_row_for_a_field_that_does_not_exist(page: str, models: dict[str, list[type[BaseModel]]]) -> None:
    known = {
        f"{prefix}{field.alias or name}"
        for prefix, found in models.items()
        for model in found
        for name, field in model.model_fields.items()
    }
    rows = re.findall(r"^\| `([a-zA-Z_.\[\]]+)` \|", (DOCS / page).read_text("utf-8"), re.MULTILINE)
    assert [row for row in rows if row not in known] == []


PAGES = [
    *sorted(path.name for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"),
    *sorted(f"docs/{path.name}" for path in DOCS.glob("*.md")),
    *sorted(f"{path.parent.name}/README.md" for path in ROOT.glob("*/README.md")),
]


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", path.read_text("utf-8"))
    wrong = []
    for file, anchor in links:
        target = path.parent / file if file else path
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            wrong.append(f"{file}#{anchor}")
    assert wrong == []


def test_words_of_every_page_are_checked() -> None:
    checked = {str(page.relative_to(ROOT)) for pattern in check_words.PAGES for page in ROOT.glob(pattern)}
    assert checked == set(PAGES)


def anchors(page: str) -> set[str]:
    """The names that a page's headings have in links."""
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_architecture_page_has_every_room_and_no_other() -> None:
    page = (DOCS / "architecture.md").read_text("utf-8")
    rows = re.search(r"## Rooms\n.*?\n## ", page, re.DOTALL)
    assert rows
    named = {
        room for line in re.findall(r"^\| (`.*?) \|", rows[0], re.MULTILINE) for room in re.findall(r"`(\w+)`", line)
    }
    package = ROOT / "envmgr"
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    alone = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    assert named == rooms | alone


def test_architecture_page_shows_the_layers_that_are_checked() -> None:
    picture = (DOCS / "architecture.md").read_text("utf-8").partition("┌")[2].partition("└──────────────────")[0]
    shown = [re.findall(r"\b[a-z]+\b", line.partition("│")[2].rpartition("│")[0]) for line in picture.splitlines()]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    assert [row for row in shown if row] == [layer.split(" | ") for layer in layers]


def test_architecture_page_names_modules_that_exist() -> None:
    page = (DOCS / "architecture.md").read_text("utf-8")
    flow = page.partition("## How data flow")[2].partition("\n## ")[0]
    named = {name.replace(".", "/") for name in re.findall(r"`([a-z_]+\.[a-z_]+)`", flow)}
    assert len(named) > 10
    package = ROOT / "envmgr"
    assert [n for n in sorted(named) if not (package / f"{n}.py").exists() and not (package / n).is_dir()] == []


@pytest.mark.parametrize("name", ["architecture.md", "security.md"])
def test_page_names_tests_that_exist(name: str) -> None:
    page = (DOCS / name).read_text("utf-8")
    named = set(re.findall(r"\b(test_\w+)", page))
    text = "".join(path.read_text("utf-8") for path in (ROOT / "tests").glob("*/**/test_*.py"))
    assert len(named) >= 15
    assert [name for name in sorted(named) if f"def {name}(" not in text] == []


def test_architecture_page_names_files_that_exist() -> None:
    rows = (DOCS / "architecture.md").read_text("utf-8").partition("## Where to look")[2].partition("## Words")[0]
    named = re.findall(r"`((?:[a-z_]+/)+(?:[a-z_.0-9]+|[a-z_.<>]+)?)`", rows)
    assert len(named) > 30
    patterns = [re.sub(r"<\w+>", "*", name) for name in named]
    assert [n for n in patterns if not any([*base.glob(n)] for base in (ROOT / "envmgr", ROOT))] == []


def test_pages_name_files_of_the_package_that_exist() -> None:
    pages = [*DOCS.glob("*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))]
    named = {
        path
        for page in pages
        for path in re.findall(r"`((?:envmgr|modulefiles|nodesetup)/[\w./-]+\.\w+)`", page.read_text("utf-8"))
    }
    assert len(named) > 5
    assert [path for path in sorted(named) if not (ROOT / path).exists() and "NAME" not in path] == []


def test_page_of_the_json_is_what_the_code_says() -> None:
    """`make golden` writes it."""
    assert PAGE.read_text("utf-8") == page()
    assert len(re.findall(r"^## envmgr\.", page(), re.MULTILINE)) > 20


def test_page_of_the_verbs_has_each_with_its_page() -> None:
    rows = [(name, row.about, f"{row.page}.md") for name, row in app.VERBS.items()]
    text = (DOCS / "verbs.md").read_text("utf-8")
    assert re.findall(r"^\| `([a-z -]+)` \| (.*) \| \[([a-z-]+\.md)\]", text, re.MULTILINE) == rows
    assert all((DOCS / page).is_file() for _, _, page in rows)
