"""A backend's part of the site file, checked by the backend's own model; and the rows of `site check` on a setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ValidationError

from envmgr.catalog.site import Site
from envmgr.errors import InputError
from envmgr.system.models import FrozenModel
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


def mirrors_fact(field: str, parts: Sequence[str], mirrors: Sequence[str]) -> SiteFact:
    """Return `parts` and the mirrors as a fact; an error if a mirror is a folder that does not exist."""
    texts, missing = [*parts], False
    for mirror in mirrors:
        folder = Path(unquote(urlsplit(mirror).path))
        if mirror.startswith("file://") and not folder.is_dir():
            missing = True
            texts.append(f"mirror {folder} does not exist")
        else:
            texts.append(f"mirror {folder if mirror.startswith('file://') else mirror}")
    hint = "mount it, or take it out" if missing else ""
    return SiteFact(field, "error" if missing else "ok", ", ".join(texts), hint)


def _faults(backend: str, error: ValidationError) -> list[Fault]:
    return [(("backends", backend, *fault["loc"]), reason_of(fault)) for fault in error.errors(include_url=False)]


def _invalid(site: Site, rows: Sequence[Fault]) -> InputError:
    """Return the error for all faults, with file and line if the file can be read here: a build job may run where it
    cannot.
    """
    lines = [f"{'.'.join(map(str, location))}: {reason}" for location, reason in rows]
    if site.source is not None:
        with suppress(InputError):
            lines = faults_with_lines(rows, read_file_text(site.source, SITE, tree=ANYWHERE), site.source)
    file = site.source or "the site"
    return InputError("site-invalid", f"{file} has {len(rows)} fault{'s' if len(rows) > 1 else ''}", context=lines)
