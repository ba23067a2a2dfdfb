"""Checks whether parts of files can stand in a recipe, by the backends' own models of its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from envmgr.backends.conda.models import CondaInput
from envmgr.system.yamlfile import reason_of
from envmgr.wheels.requirements import HashedRow, checked

NO_INDEX = "it comes from no index"


def fault_in(model: type[BaseModel], fields: Mapping[str, Any]) -> str:
    """Return why a backend refuses such an input; empty if it does not."""
    try:
        model.model_validate(fields)
    except ValidationError as error:
        return reason_of(error.errors(include_url=False)[0])
    return ""


def channel_fault(channel: object) -> str:
    return fault_in(CondaInput, {"channels": [channel], "specs": ["python"]})


def spec_fault(spec: str) -> str:
    return fault_in(CondaInput, {"channels": ["conda-forge"], "specs": [spec]})


def row_of(row: object, sums: Sequence[str] = ()) -> HashedRow | str:
    """Return a requirement for a recipe, or why it cannot be one."""
    try:
        return HashedRow(requirement=checked(str(row)), sha256=tuple(sums))
    except ValueError as error:
        return str(error).partition("`: ")[2] or str(error)
