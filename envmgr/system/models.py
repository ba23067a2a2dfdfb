"""The base of every model that crosses a process or a file, and the check of a file's format."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from envmgr.errors import EnvmgrError
from envmgr.wording import one_line


class FrozenModel(BaseModel):
    """Cannot be changed once made, and refuses fields that it does not have."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def refuse(faults: Iterable[str]) -> None:
    """Raise ValueError with all of the `faults` of one field, for `each_fault`; nothing if there are none."""
    if lines := [one_line(fault) for fault in faults]:
        raise ValueError(_BETWEEN.join(lines))


def each_fault(reason: str) -> list[str]:
    """Return the faults that `refuse` put into one reason."""
    return reason.split(_BETWEEN)


_BETWEEN = "\x1e"  # it stands in no text that `one_line` has seen


def require_format(data: Any, known: int | str, path: Path, key: str = "schema") -> dict[str, Any]:
    """Return `data`, the content of a file that envmgr wrote, if it has the number of the format that is `known`.

    Raises:
        EnvmgrError: `format-unknown` if it has another number, or none; ValueError if it is no mapping at all.
    """
    if not isinstance(data, dict):
        raise ValueError(f"it is no mapping, but a {type(data).__name__}")  # noqa: TRY004 - as what is no JSON
    found = data.get(key)
    if type(found) is not type(known) or found != known:
        said = "no format" if found is None else f"format {one_line(repr(found))}"
        raise EnvmgrError(
            "format-unknown",
            f"{path} has {said}, and this envmgr knows format {known}",
            hint="use the envmgr that wrote it, or a later one",
        )
    return data
