"""The recipe: what an entry is, as its author wrote it. One file per entry, one `software.yaml` per name."""

from __future__ import annotations

import datetime
import re
import string
from pathlib import Path
from typing import Annotated, Any, Literal

from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from envmgr.names import fault_in_part, parse_entry
from envmgr.target import CpuLevel
from envmgr.yamlfile import load_model

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Invariant 7: these break other programs, or the user's own environment, as soon as a module sets them.
_FORBIDDEN_VARIABLES = {"LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONHOME", "PYTHONPATH", "MODULEPATH", "LMOD_RC"}


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _one_line(value: str) -> str:
    if any(ord(c) < 32 for c in value):
        raise ValueError("must be one line, without control characters")
    return value


OneLine = Annotated[str, Field(min_length=1)]


class Software(_Model):
    """What all versions of a name share."""

    description: str = Field(min_length=1)
    homepage: str = ""
    licence: str = ""
    category: str = ""
    acknowledge: str = Field(
        default="", description="licence that the site must name in policies.licences before a build"
    )

    _lines = field_validator("homepage", "licence", "category", "acknowledge")(_one_line)


class Environment(_Model):
    """Extra variables. `${root}`, `${name}` and `${version}` are replaced; `prepend` and `append` take PATH-like lists."""

    set: dict[str, str] = {}
    prepend: dict[str, tuple[str, ...]] = {}
    append: dict[str, tuple[str, ...]] = {}

    @model_validator(mode="after")
    def _check(self) -> Environment:
        for variable in (*self.set, *self.prepend, *self.append):
            if not _VARIABLE.fullmatch(variable):
                raise ValueError(f"`{variable}` is not a variable name")
            if variable in _FORBIDDEN_VARIABLES:
                raise ValueError(f"{variable} must not be set by a module: it reaches into other programs")
        values = [*self.set.values(), *(v for vs in (*self.prepend.values(), *self.append.values()) for v in vs)]
        for value in values:
            if any(c in value for c in "\n\r\0"):
                raise ValueError("a variable's value cannot hold a line break: Lmod hands it to the shell as it is")
            template = string.Template(value)
            if not template.is_valid() or (unknown := set(template.get_identifiers()) - {"root", "name", "version"}):
                known = "`${root}`, `${name}`, `${version}` can be used, `$$` is a dollar"
                raise ValueError(
                    f"`{value}`: {'bad `$`' if not template.is_valid() else f'unknown {sorted(unknown)}'}; {known}"
                )
        return self


class Requires(_Model):
    """What a node must have to run the entry. Versions are minima; none means no demand."""

    nvidia_driver: str | None = None
    compute_capability: tuple[str, ...] = ()
    glibc: str | None = None
    cpu_level: CpuLevel | None = None

    @field_validator("nvidia_driver", "glibc")
    @classmethod
    def _version(cls, value: str | None) -> str | None:
        return None if value is None else _dotted(value)

    @field_validator("compute_capability")
    @classmethod
    def _capabilities(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            if not re.fullmatch(r"[0-9]{1,2}\.[0-9]", value):
                raise ValueError(f"`{value}` is not a compute capability such as 7.5")
        return values


def _dotted(value: str) -> str:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)*", value):
        raise ValueError(f"`{value}` is not a version of digits and dots")
    return value


class SmokeTest(_Model):
    """A bash command that must exit 0 with the entry's module loaded. `timeout` is seconds."""

    name: str
    run: str = Field(min_length=1)
    needs: tuple[Literal["gpu", "mpi"], ...] = ()
    timeout: float = Field(default=300, gt=0)

    _lines = field_validator("name")(_one_line)


class Deprecated(_Model):
    """Told to whoever loads the entry; `date` is when it goes away."""

    message: str = Field(min_length=1)
    date: datetime.date


class Recipe(_Model):
    """One entry. `input` belongs to the backend, which has the model for it."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    backend: str
    input: dict[str, Any]
    depends: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    family: str | None = None
    environment: Environment = Environment()
    requires: Requires = Requires()
    tests: tuple[SmokeTest, ...] = ()
    help: str = ""
    default: bool = False
    hidden: bool = False
    deprecated: Deprecated | None = None

    @field_validator("depends")
    @classmethod
    def _entries(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            try:
                parse_entry(value)
            except Exception as error:
                raise ValueError(f"`{value}` is not an entry (name/version)") from error
        return values

    @field_validator("conflicts")
    @classmethod
    def _conflicts(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            if any(fault_in_part(part) for part in value.split("/", 1)):
                raise ValueError(f"`{value}` is neither a name nor an entry")
        return values

    @field_validator("family")
    @classmethod
    def _family(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", value):
            raise ValueError("a family is one word of letters, digits and _ (Lmod makes variable names of it)")
        return value

    @field_validator("tests")
    @classmethod
    def _names_differ(cls, values: tuple[SmokeTest, ...]) -> tuple[SmokeTest, ...]:
        names = [t.name for t in values]
        if twice := {n for n in names if names.count(n) > 1}:
            raise ValueError(f"two tests are called {min(twice)}")
        return values

    @model_validator(mode="after")
    def _hidden_default(self) -> Recipe:
        if self.hidden and self.default:
            raise ValueError("an entry cannot be hidden and the default at once")
        return self


def load_recipe(path: Path) -> Recipe:
    """Raises InputError `recipe-invalid` or `yaml-syntax`, each fault with its line."""
    return load_model(path, Recipe, what="recipe", reference="recipe-invalid")


def load_software(path: Path) -> Software:
    return load_model(path, Software, what="software file", reference="recipe-invalid")


def sort_key(version: str) -> tuple[int, Version | str]:
    """Orders versions as people expect (2.9 before 2.10); those that are no PEP 440 versions come first, by text."""
    try:
        return (1, Version(re.sub(r"-", "+", version, count=1)))
    except InvalidVersion:
        return (0, version)
