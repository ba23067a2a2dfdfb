"""The parts of a recipe that modules and their specs also have: what nodes need, tests, and how an entry ends."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Literal

from pydantic import Field, field_validator, model_validator

from envmgr.catalog.environment import lines_of_text
from envmgr.catalog.gpus import parse_code
from envmgr.catalog.site_file import CpuLevel
from envmgr.errors import EnvmgrError
from envmgr.system.models import FrozenModel, refuse
from envmgr.wording import first_unseen


def plain_line(value: str) -> str:
    """Return a value of one line. Raise ValueError."""
    if first_unseen(value):
        raise ValueError("must be one line, without control characters")
    return value


def why_refused(parse: Callable[[str], object], value: str) -> str:
    """Return why `parse` refuses the value; empty if it does not."""
    try:
        parse(value)
    except (EnvmgrError, ValueError) as error:
        return str(error)
    return ""


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
        refuse(fault for value in values if (fault := why_refused(parse_code, value)))
        return values


class SmokeTest(FrozenModel):
    """A bash command that must exit 0 with the entry's module loaded, or the distributions whose modules must import.
    `timeout` is in seconds.

    With `nodes`, it runs once, on the first node of a Slurm job of at least that many nodes. `files` are names; in a
    loaded recipe, `run` begins with the text that writes them into the test's folder.
    """

    name: str
    run: str = ""
    imports: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    needs: tuple[Literal["gpu", "mpi", "slurm", "compiler"], ...] = ()
    nodes: int = Field(default=1, ge=1)
    timeout: float = Field(default=300, gt=0, le=30 * 86400)

    _one = field_validator("name")(plain_line)
    _several = field_validator("run")(lines_of_text)

    @field_validator("files")
    @classmethod
    def _file_names(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        wrong = (value for value in values if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", value))
        refuse(f"`{value}` is not the name of a file beside the recipe" for value in wrong)
        return values

    @field_validator("imports")
    @classmethod
    def _distributions(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        wrong = (value for value in values if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", value))
        refuse(f"`{value}` is not the name of a distribution" for value in wrong)
        return values

    @model_validator(mode="after")
    def _one_kind(self) -> SmokeTest:
        if bool(self.run) == bool(self.imports) or (self.imports and self.files):
            raise ValueError("a test has either `run`, which may have `files`, or `imports`")
        return self

    @model_validator(mode="after")
    def _several_nodes(self) -> SmokeTest:
        if self.nodes > 1 and "slurm" not in self.needs:
            raise ValueError("a test of several nodes runs in a job: `needs: [slurm]`")
        return self


class Deprecated(FrozenModel):
    """A message to the user who loads the entry; `date` is when the entry goes away."""

    message: str = Field(min_length=1)
    date: datetime.date

    _several = field_validator("message")(lines_of_text)
