"""A backend's part of the site file, checked by the backend's own model; and the rows of `check` on a setting."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ValidationError

from envmgr.catalog.site import Site
from envmgr.errors import InputError
from envmgr.system.models import FrozenModel, each_fault
from envmgr.system.untrusted_files import ANYWHERE, SITE, read_file_text
from envmgr.system.yamlfile import Fault, faults_with_lines, reason_of

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class SiteFact:
    """One line of the explanation: `status` is ok, warning or error; `field` is as in site.yaml."""

    field: str
    status: Literal["ok", "warning", "error"]
    text: str
    hint: str = ""


def site_line(field: str, value: str) -> str:
    """Return the line of site.yaml that sets `field` (`backends.NAME.SETTING`), and where it belongs. `value` is
    YAML.
    """
    above, _, last = field.rpartition(".")
    return f"under `{above}` in site.yaml: `{last}: {value}`"


def quoted(values: Sequence[str]) -> str:
    """Return a list of texts in YAML: `["7.5", "8.6"]`."""
    return "[" + ", ".join(f'"{each}"' for each in values) + "]"


class NoSettings(FrozenModel):
    """The settings of a backend that has none."""


def backend_settings(site: Site, backend: str, model: type[Model]) -> Model:
    """Return the site's `backends.<backend>` as the backend's own model. Relative paths are as written.

    Raises:
        InputError: `site-invalid`, every fault of that part as `file:line: field: reason`.
    """
    try:
        return model.model_validate(site.backends.get(backend, {}))
    except ValidationError as error:
        raise _invalid(site, _faults(backend, error)) from None


def require_no_faults(site: Site, models: Mapping[str, type[BaseModel] | None], known: Sequence[str]) -> None:
    """Raise InputError `site-invalid` with every fault in the settings of all backends, and every backend that does not
    exist.

    `models` maps each backend that the site names to its model, None if it has no settings. `known` are the names of
    all backends.
    """
    rows: list[Fault] = [
        (("backends", name), f"there is no such backend; known: {', '.join(known)}")
        for name in site.backends
        if name not in known
    ]
    for backend, model in models.items():
        try:
            (model or NoSettings).model_validate(site.backends.get(backend, {}))
        except ValidationError as error:
            rows += _faults(backend, error)
    if rows:
        raise _invalid(site, rows)


def mirror_faults(field: str, urls: Sequence[str]) -> Iterator[SiteFact]:
    """Yield a fault for each folder among these (URLs and mirrors) that cannot be read; nothing on a network is asked."""
    for url in urls:
        folder = Path(unquote(urlsplit(url).path))
        if url.startswith("file://") and (fault := folder_fault(folder)):
            yield SiteFact(field, "error", f"{folder}{fault}", "mount it, or take it out")


def folder_fault(folder: Path) -> str:
    """Return what is wrong with a folder to read, as words after its name; empty if nothing is."""
    if not os.path.lexists(folder):
        return " does not exist"
    if not folder.is_dir():
        return " is no folder"
    return "" if os.access(folder, os.R_OK | os.X_OK) else " cannot be read by you"


def _faults(backend: str, error: ValidationError) -> list[Fault]:
    return [(("backends", backend, *fault["loc"]), reason_of(fault)) for fault in error.errors(include_url=False)]


def _invalid(site: Site, rows: Sequence[Fault]) -> InputError:
    """Return the error for all faults, with file and line if the file can be read here: a build job may run where it
    cannot.
    """
    lines = [f"{'.'.join(map(str, location))}: {each}" for location, reason in rows for each in each_fault(reason)]
    if site.source is not None:
        with suppress(InputError):
            lines = faults_with_lines(rows, read_file_text(site.source, SITE, tree=ANYWHERE), site.source)
    file = site.source or "the site"
    return InputError("site-invalid", f"{file} has {len(rows)} fault{'s' if len(rows) > 1 else ''}", context=lines)
