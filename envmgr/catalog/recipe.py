"""The recipe: what an entry is, as its author wrote it. One file per entry, one `software.yaml` per name."""

from __future__ import annotations

import datetime
import os
import re
import shlex
import string
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from envmgr.catalog.accept import fault_in_key
from envmgr.catalog.gpus import parse_code
from envmgr.catalog.names import catalog_of, fault_in_part, parse_entry
from envmgr.catalog.shell_rules import (
    SHELL_WORDS,
    fault_in_csh,
    fault_in_posix,
    fault_in_tcsh,
    fault_in_value,
    fault_in_variable,
)
from envmgr.catalog.site_file import CpuLevel
from envmgr.errors import EnvmgrError, InputError
from envmgr.system.invisible import TABS, require_visible
from envmgr.system.models import FrozenModel, refuse
from envmgr.system.untrusted_files import RECIPE, SOFTWARE, TEST_FILE, read_bytes
from envmgr.system.yamlfile import load_model, load_sound_part
from envmgr.wording import LINES, first_unseen, one_line

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What a value may name: known when the module is made, or only where it is loaded.
BUILD_NAMES, LOAD_NAMES = frozenset({"root", "name", "version"}), frozenset({"HOME", "USER"})
UNPARSED = "no shell reads it"  # the context of a validation, for commands that only list entries
_END = "ENVMGR_FILE"  # of a file in a test's text
_MOST_FUNCTIONS = 50  # of a recipe; each is read by three shells, twice
_MOST_SHELL = 20_000  # characters of all of them; bash starts a process for each `$(…)` that it only reads
_MOST_TEXT = 4 << 20  # characters, of the files of all tests of a recipe: modules keep them


def _one_line(value: str) -> str:
    if first_unseen(value):
        raise ValueError("must be one line, without control characters")
    return value


def _lines(value: str) -> str:
    if first_unseen(value, LINES):
        raise ValueError("must be text, without control characters")
    return value


class Software(FrozenModel):
    """The facts that all versions of a name share."""

    description: str = Field(min_length=1)
    homepage: str = ""
    licence: str = ""
    category: str = ""
    acknowledge: str = Field(
        default="", description="licence that the site must name in policies.licences before a build"
    )

    _one = field_validator("homepage", "licence", "category", "acknowledge")(_one_line)
    _several = field_validator("description")(_lines)


class ShellText(FrozenModel):
    """Text that a shell runs: `bash` in bash, zsh, sh and ksh, `csh` in csh and tcsh. `${root}` is the install's
    folder.

    The csh text is one line: Lmod hands it over in backquotes, which make one line of it.
    """

    bash: str
    csh: str = ""

    @field_validator("bash", "csh")
    @classmethod
    def _printable(cls, value: str) -> str:
        if len(value) > _MOST_SHELL:
            raise ValueError(f"has {len(value)} characters: there are {_MOST_SHELL} at most")
        return _lines(value).strip()

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> ShellText:
        refuse(self._faults(ask_shells=info.context != UNPARSED))
        return self

    def _faults(self, *, ask_shells: bool) -> Iterator[str]:
        # Lmod prints it for each shell: what is no whole command there would end the text that it stands in.
        if not self.bash:
            yield "`bash` is empty"
        elif ask_shells and (fault := fault_in_posix(self.bash.replace("${root}", "/"))):
            yield f"`bash` {fault}"
        csh = self.csh.replace("${root}", "/")
        if "\n" in self.csh:
            yield "`csh` must be one line"
        elif fault := fault_in_csh(csh):
            yield f"`csh`: {fault}"
        elif self.csh and ask_shells and (fault := fault_in_tcsh(csh)):
            yield f"`csh` {fault}"


def _few_functions(value: Any) -> Any:
    """Limit number and size of functions, before shells read any of them."""
    if not isinstance(value, dict):
        return value
    if len(value) > _MOST_FUNCTIONS:
        raise ValueError(
            f"{len(value)} functions: there are {_MOST_FUNCTIONS} at most; a file of the install can define more"
        )
    texts = [str(part) for text in value.values() if isinstance(text, dict) for part in text.values()]
    size = sum(map(len, texts))
    if size > _MOST_SHELL:
        raise ValueError(
            f"{size} characters of functions: there are {_MOST_SHELL} at most; a file of the install can have more"
        )
    return value


class Environment(FrozenModel):
    """Extra variables, shell functions, and commands for unloading.

    In values `${root}`, `${name}` and `${version}` are replaced, and `${HOME}` and `${USER}` at load. `prepend` and
    `append` take PATH-like lists.
    """

    set: dict[str, str] = {}
    set_default: dict[str, str] = {}
    prepend: dict[str, tuple[str, ...]] = {}
    append: dict[str, tuple[str, ...]] = {}
    functions: Annotated[dict[str, ShellText], BeforeValidator(_few_functions)] = {}
    on_unload: ShellText | None = None

    @field_validator("functions")
    @classmethod
    def _functions(cls, functions: dict[str, ShellText]) -> dict[str, ShellText]:
        refuse(cls._function_faults(functions))
        return functions

    @staticmethod
    def _function_faults(functions: dict[str, ShellText]) -> Iterator[str]:
        for name, text in functions.items():
            if not _VARIABLE.fullmatch(name) or name in SHELL_WORDS:
                yield f"`{name}` cannot be the name of a function"
            if "'" in text.csh:
                yield f"`csh` of {name} cannot hold `'`: Lmod makes an alias of it, between such quotes"

    @model_validator(mode="after")
    def _check(self) -> Environment:
        refuse(self._variable_faults())
        return self

    def _variable_faults(self) -> Iterator[str]:
        both = {*self.set, *self.set_default, *self.prepend, *self.append} & {*self.functions}
        yield from (f"{each} cannot be a variable and a function: Lmod keeps one thing of a name" for each in both)
        for values in (self.set, self.set_default):
            for name, value in values.items():
                yield from _variable_faults(name, (value,), as_list=False)
        for lists in (self.prepend, self.append):
            for name, elements in lists.items():
                yield from _variable_faults(name, elements, as_list=True)


def _variable_faults(variable: str, values: tuple[str, ...], *, as_list: bool) -> Iterator[str]:
    if not _VARIABLE.fullmatch(variable):
        yield f"`{variable}` is not a variable name"
    elif fault := fault_in_variable(variable, as_list=as_list):
        yield f"{variable} must not be set by a module: {fault}"
    for value in values:
        if any(c in value for c in "\n\r\0"):
            yield "a variable's value cannot hold a line break: Lmod hands it to the shell as it is"
            continue
        template = string.Template(value)
        if not template.is_valid() or (unknown := {*template.get_identifiers()} - BUILD_NAMES - LOAD_NAMES):
            known = "`${root}`, `${name}`, `${version}`, `${HOME}`, `${USER}` can be used, `$$` is a dollar"
            yield f"`{value}`: {'bad `$`' if not template.is_valid() else f'unknown {sorted(unknown)}'}; {known}"
            continue
        plain = template.substitute(dict.fromkeys(BUILD_NAMES | LOAD_NAMES, "/x"))
        if fault := fault_in_value(plain, as_list=as_list):
            yield f"a variable's value cannot be `{value}`: {fault}"


class Requires(FrozenModel):
    """The minimum versions that a node must have to run the entry; None for no demand."""

    nvidia_driver: str | None = None
    compute_capability: tuple[str, ...] = ()
    glibc: str | None = None
    cpu_level: CpuLevel | None = None

    @field_validator("nvidia_driver", "glibc")
    @classmethod
    def _version(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}){0,9}", value):
            raise ValueError(f"`{value}` is not a version of digits and dots")
        return value

    @field_validator("compute_capability")
    @classmethod
    def _capabilities(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        refuse(fault for value in values if (fault := _reason(parse_code, value)))
        return values


class SmokeTest(FrozenModel):
    """A bash command that must exit 0 with the entry's module loaded. `timeout` is in seconds.

    With `nodes`, it runs once, on the first node of a Slurm job of at least that many nodes. `files` are names; in a
    loaded recipe, `run` begins with the text that writes them into the test's folder.
    """

    name: str
    run: str = Field(min_length=1)
    files: tuple[str, ...] = ()
    needs: tuple[Literal["gpu", "mpi", "slurm", "compiler"], ...] = ()
    nodes: int = Field(default=1, ge=1)
    timeout: float = Field(default=300, gt=0, le=30 * 86400)

    _one = field_validator("name")(_one_line)
    _several = field_validator("run")(_lines)

    @field_validator("files")
    @classmethod
    def _file_names(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        wrong = (value for value in values if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", value))
        refuse(f"`{value}` is not the name of a file beside the recipe" for value in wrong)
        return values

    @model_validator(mode="after")
    def _several_nodes(self) -> SmokeTest:
        if self.nodes > 1 and "slurm" not in self.needs:
            raise ValueError("a test of several nodes runs in a job: `needs: [slurm]`")
        return self


class Deprecated(FrozenModel):
    """A message to the user who loads the entry; `date` is when the entry goes away."""

    message: str = Field(min_length=1)
    date: datetime.date

    _several = field_validator("message")(_lines)


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
    _help = field_validator("help")(_lines)
    accept: dict[str, str] = Field(
        default={}, description="what is meant of its lock and its module, each with the reason"
    )

    @field_validator("accept")
    @classmethod
    def _reasons(cls, values: dict[str, str]) -> dict[str, str]:
        faults = ((rule, why, fault_in_key(rule)) for rule, why in values.items())
        refuse(
            fault or (f"`{rule}` needs a reason" if not why.strip() else "must be one line, without control characters")
            for rule, why, fault in faults
            if fault or not why.strip() or first_unseen(why)
        )
        return values

    @field_validator("depends")
    @classmethod
    def _entries(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        refuse(f"`{value}` is not an entry (name/version)" for value in values if _reason(parse_entry, value))
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


def load_recipe(path: Path, *, shells: bool = True) -> Recipe:
    """Load a recipe and the files of its tests. Without `shells`, no shell is asked whether it can read the functions.

    Raises:
        InputError: `recipe-invalid` or `yaml-syntax`, each fault with its line; `file-irregular`, `file-too-large`.
    """
    tree, context = catalog_of(path.parent), None if shells else UNPARSED
    return _with_files(
        load_model(path, Recipe, kind=RECIPE, reference="recipe-invalid", tree=tree, context=context), path
    )


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


def _reason(parse: Callable[[str], object], value: str) -> str:
    """Return why `parse` refuses the value; empty if it does not."""
    try:
        parse(value)
    except (EnvmgrError, ValueError) as error:
        return str(error)
    return ""


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
