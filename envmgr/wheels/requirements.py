"""What is asked of the indexes: rows as pip has them, and the platform that their wheels must run on."""

from __future__ import annotations

import re

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import BaseModel, ConfigDict

_MEANS = (
    "the site's indexes give what is asked for; a folder of wheels can be one (`backends.wheels.indexes` of site.yaml)"
)


class Question(BaseModel):
    """`indexes` are names of the site's: a package comes from the first that has its name. `platform` is in uv's words."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    requirements: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    indexes: tuple[str, ...]
    exclude_newer: str | None = None
    platform: str


def checked(row: str) -> str:
    """A row that an index can answer. ValueError for every other kind, with its reason and way out."""
    if row.startswith("-"):
        raise ValueError(f"`{row}`: options do not belong here: {_MEANS}")
    if re.match(r"(git|hg|svn|bzr)\+|[A-Za-z][A-Za-z0-9+.-]*://|[./~]|[^;@]*/", row):
        raise ValueError(f"`{row}` names a place, whose content no lock holds to a sha256: {_MEANS}")
    try:
        requirement = Requirement(row)
    except InvalidRequirement as error:
        raise ValueError(f"`{row}` is no requirement: {str(error).splitlines()[0]}") from None
    if requirement.url is not None:
        raise ValueError(f"`{row}` names a place, whose content no lock holds to a sha256: {_MEANS}")
    return str(requirement)
