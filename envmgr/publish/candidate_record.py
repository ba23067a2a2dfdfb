"""The marker of a candidate, as a site signs it."""

from __future__ import annotations

from pydantic import Field

from envmgr.system.models import FrozenModel

FORMAT = 1
"""The number of the format of markers; another one is refused."""


class CandidateRecord(FrozenModel):
    """The content of a marker. `record` is the sha256 of the generation's record, `parent` what was current when it was
    made. `date` is UTC.
    """

    schema_version: int = FORMAT
    candidate: int = Field(ge=1)
    record: str = Field(pattern="^[0-9a-f]{64}$")
    date: str = Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
    parent: int | None
    user: str
    host: str
