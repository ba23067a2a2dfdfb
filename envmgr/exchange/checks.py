"""Checks whether parts of files can stand in a recipe, by the backends' own models of its input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from envmgr.backends.conda.models import CondaInput
from envmgr.exchange import Dropped, ReadFile
from envmgr.system.yamlfile import reason_of
from envmgr.wheels.lockfile import LockedRow
from envmgr.wheels.requirements import checked

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


def row_of(given: ReadFile, row: object, shown: object = "", why: str = "") -> str | Dropped:
    """Return a requirement for a recipe; or the part of the file, as it is `shown`, that cannot be one, and `why`."""
    try:
        return given.left(shown, why) if why else checked(str(row))
    except ValueError as error:
        return given.left(shown or row, str(error).partition("`: ")[2] or str(error))


def row_for(wheel: LockedRow) -> str:
    """Return the requirement that only this wheel answers: by its version, or by its URL."""
    return f"{wheel.name} @ {wheel.url}#sha256={wheel.sha256}" if wheel.url else f"{wheel.name}=={wheel.version}"
