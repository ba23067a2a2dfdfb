"""The base of every model that crosses a process or a file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class FrozenModel(BaseModel):
    """Cannot be changed once made, and refuses fields that it does not have."""

    model_config = ConfigDict(frozen=True, extra="forbid")
