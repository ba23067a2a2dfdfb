"""The recipe: what an entry is, as its author wrote it. One file per entry, one `software.yaml` per name."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from envmgr.catalog.accept import RULES
from envmgr.catalog.environment import Environment, lines_of_text
from envmgr.catalog.names import catalog_of, fault_in_part, parse_entry
from envmgr.catalog.recipe_parts import Deprecated, Requires, SmokeTest, plain_line, why_refused
from envmgr.errors import InputError
from envmgr.system.invisible import TABS, require_visible
from envmgr.system.models import FrozenModel, refuse
from envmgr.system.untrusted_files import RECIPE, SOFTWARE, TEST_FILE, read_bytes
from envmgr.system.yamlfile import load_model, load_sound_part
from envmgr.wording import first_unseen, one_line

_END = "ENVMGR_FILE"  # of a file in a test's text


_MOST_TEXT = 4 << 20  # characters, of the files of all tests of a recipe: modules keep them


class Software(FrozenModel):
    """The facts that all versions of a name share."""

    description: str = Field(min_length=1)
    homepage: str = ""
    licence: str = ""
    category: str = ""
    acknowledge: str = Field(
        default="", description="licence that the site must name in policies.licences before a build"
    )

    _one = field_validator("homepage", "licence", "category", "acknowledge")(plain_line)
    _several = field_validator("description")(lines_of_text)


class Recipe(FrozenModel):
    """One entry. `input` belongs to the backend, which has the model for it."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    backend: str
    input: dict[str, Any]
    depends: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    families: tuple[str, ...] | None = None
    environment: Environment = Environment()
    requires: Requires = Requires()
    tests: tuple[SmokeTest, ...] = ()
    help: str = ""
    default: bool = False
    hidden: bool = False
    deprecated: Deprecated | None = None
    _help = field_validator("help")(lines_of_text)
    accept: dict[str, str] = Field(default={}, description="faults of its lock that are meant, each with the reason")

    @field_validator("accept")
    @classmethod
    def _reasons(cls, values: dict[str, str]) -> dict[str, str]:
        refuse(fault for rule, why in values.items() if (fault := _fault_in_accept(rule, why)))
        return values

    @field_validator("depends")
    @classmethod
    def _entries(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        refuse(f"`{value}` is not an entry (name/version)" for value in values if why_refused(parse_entry, value))
        return values

    @field_validator("conflicts")
    @classmethod
    def _conflicts(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        wrong = (value for value in values if any(fault_in_part(part) for part in value.split("/", 1)))
        refuse(f"`{value}` is neither a name nor an entry" for value in wrong)
        return values

    @field_validator("families")
    @classmethod
    def _families(cls, values: tuple[str, ...] | None) -> tuple[str, ...] | None:
        seen = Counter(name.upper() for name in values or ())  # Lmod keeps a family in a variable, in capitals
        wrong = (name for name in values or () if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name))
        word = "a family is one word of letters, digits and _ (Lmod makes variable names of it)"
        twice = (name for name in dict.fromkeys(values or ()) if seen[name.upper()] > 1)
        refuse([*dict.fromkeys(word for _ in wrong), *(f"{name} is there twice" for name in [*twice][-1:])])
        return values

    @field_validator("tests")
    @classmethod
    def _names_differ(cls, values: tuple[SmokeTest, ...]) -> tuple[SmokeTest, ...]:
        times = Counter(t.name for t in values)
        refuse(f"two tests are called {name}" for name in sorted(name for name, count in times.items() if count > 1))
        return values

    @field_validator("hidden")
    @classmethod
    def _hidden_default(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("default"):
            raise ValueError("an entry cannot be hidden and the default at once")
        return value


def _fault_in_accept(rule: str, why: str) -> str:
    """Return why a recipe cannot accept `rule` for this reason; empty if it can."""
    if rule not in RULES:
        return f"there is no rule `{rule}`; known: {', '.join(sorted(RULES))}"
    if not why.strip():
        return f"`{rule}` needs a reason"
    return "must be one line, without control characters" if first_unseen(why) else ""


def load_recipe(path: Path) -> Recipe:
    """Load a recipe and the files of its tests.

    Raises:
        InputError: `recipe-invalid` or `yaml-syntax`, each fault with its line; `file-irregular`, `file-too-large`.
    """
    tree = catalog_of(path.parent)
    return _with_files(load_model(path, Recipe, kind=RECIPE, reference="recipe-invalid", tree=tree), path)


def load_sound_recipe(path: Path) -> tuple[Recipe | None, list[str], frozenset[str]]:
    """Return as `load_sound_part`, with the files of its tests. Raises InputError for a file that is not YAML."""
    recipe, faults, faulty = load_sound_part(path, Recipe, kind=RECIPE, tree=catalog_of(path.parent))
    if recipe is None:
        return None, faults, faulty
    try:
        return _with_files(recipe, path), faults, faulty
    except InputError as error:
        lines = [f"{path}: tests: {line}" for line in error.context or (error.message,)]
        return recipe.model_copy(update={"tests": ()}), [*faults, *lines], faulty | {"tests"}


def _with_files(recipe: Recipe, path: Path) -> Recipe:
    """Return the recipe with its tests' files in their texts. Raises InputError that names each file at fault."""
    texts: dict[str, str] = {}
    failed = list[InputError]()
    for name in dict.fromkeys(name for test in recipe.tests for name in test.files):
        try:
            texts[name] = _written(path, name)
        except InputError as error:
            failed.append(error)
        # Counted for each test: every test keeps its own copy of the text.
        if sum(len(texts.get(each, "")) for test in recipe.tests for each in test.files) > _MOST_TEXT:
            reason = f"the files of the tests of {path} are more than {_MOST_TEXT} characters"
            raise InputError("file-too-large", reason)
    if failed:
        failed[0].context = tuple(line for error in failed for line in error.context or (error.message,))
        raise failed[0]
    tests = tuple(
        test.model_copy(update={"run": "".join(texts[name] for name in test.files) + test.run}) for test in recipe.tests
    )
    return recipe.model_copy(update={"tests": tests})


def shared_files(recipe: Recipe, folder: Path) -> list[Path]:
    """Return the files of a recipe's tests that all versions share: beside `software.yaml`, and not in the recipe's own
    folder.
    """
    names = dict.fromkeys(name for test in recipe.tests for name in test.files)
    return [folder.parent / name for name in names if not (folder / name).exists()]


def _written(recipe: Path, name: str) -> str:
    """Return bash text that writes the file. A generation keeps only the text of a test, which is complete in this
    way.
    """
    places = (recipe.parent / name, recipe.parent.parent / name)
    try:
        place = next((place for place in places if os.path.lexists(place)), places[0])
        text = read_bytes(place, TEST_FILE, tree=catalog_of(recipe.parent)).decode()
    except (OSError, ValueError) as error:
        raise InputError(
            "recipe-invalid",
            f"a file of a test of {recipe} cannot be read",
            context=f"{name}: {one_line(error)}",
            hint=f"it is a text beside the recipe, or in {places[1].parent}",
        ) from None
    # Such a line would end the here-document, and the shell would run the lines after it.
    if "\0" in text or _END in text.split("\n"):
        raise InputError("recipe-invalid", f"a file of a test of {recipe} is no text", context=str(name))
    require_visible(text, place, also=TABS)
    lines = text if text.endswith("\n") or not text else f"{text}\n"
    # In quotes, so that the shell replaces nothing in the text.
    return f"cat >{name} <<'{_END}'\n{lines}{_END}\n"


def load_software(path: Path) -> Software:
    """Return what all versions share. Raise InputError, as `load_model` does."""
    try:
        return load_model(path, Software, kind=SOFTWARE, reference="recipe-invalid", tree=path.parent.parent)
    except InputError as error:
        if error.reference == "file-missing":
            error.hint = (
                f"one line is enough, which `module whatis` shows: `echo 'description: …' >{shlex.quote(str(path))}`"
            )
        raise
