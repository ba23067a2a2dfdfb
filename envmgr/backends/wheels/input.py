"""The input of a wheels recipe: the files of requirements beside it, and the Python that it is built on."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from packaging.utils import canonicalize_name
from pydantic import Field, field_validator, model_validator

from envmgr.backends import LoadedEntry, get_backend
from envmgr.catalog.entries import open_catalog
from envmgr.catalog.locks import recipe_digest
from envmgr.catalog.names import Entry, catalog_of, parse_entry
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.system.files import sha256_bytes
from envmgr.system.models import FrozenModel, refuse
from envmgr.system.untrusted_files import BESIDE, read_bytes, require_visible_patch
from envmgr.wheels.requirements import Question, checked, checked_all
from envmgr.wheels.requirements_file import read_rows
from envmgr.wording import one_line, shortened

SYSTEM = "system"
SYSTEM_PYTHONS = Path("/usr/bin")
LOST = (
    "it stands on the operating system's Python: an update of the system changes it under the install, every node must "
    "have it, and `python -m venv --system-site-packages` on top does not see its packages; `python: python/{version}` "
    "loses none of that"
)
_BESIDE = "it lies beside recipe.yaml"
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.(txt|in)")


class Patch(FrozenModel):
    """A change of a source before it is built, as `patch -p1` reads it: a `file` beside the recipe.

    `package` is the package that it changes; it may be left out if `build` has one name.
    """

    file: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    package: str | None = None


class WheelsInput(FrozenModel):
    """A wheels recipe's `input`.

    `requirements` and `constraints` are as pip has them, or the name of a file beside the recipe.
    `python` is an entry of the catalog, or `system`: the operating system's own. `indexes` are names of the site's: a
    package comes from the first that has its name. `build` are packages that are built from their source, and
    `build_requires` what the build of one imports and does not ask for. `platform` is in uv's words; it is the platform
    of the oldest node, and never the host's.
    """

    python: str
    requirements: tuple[str, ...] | str = Field(min_length=1)
    constraints: tuple[str, ...] | str = ()
    indexes: tuple[str, ...] = Field(default=("pypi",), min_length=1)
    exclude_newer: datetime.date | None = None
    build: tuple[str, ...] = Field(default=(), max_length=100)
    build_requires: dict[str, tuple[str, ...]] = Field(default={}, max_length=100)
    patches: tuple[Patch, ...] = Field(default=(), max_length=100)
    platform: str = Field(default="x86_64-manylinux_2_28", pattern=r"^(x86_64|aarch64)-manylinux_2_[0-9]{1,3}$")

    @field_validator("python")
    @classmethod
    def _python(cls, value: str) -> str:
        if re.fullmatch(rf"{SYSTEM}(/3\.[0-9]{{1,3}})?", value):
            return value
        wrong = f"`{value}` is neither an entry (python/3.11) nor `{SYSTEM}` (or `{SYSTEM}/3.11`)"
        if value.partition("/")[0] == SYSTEM:
            raise ValueError(wrong)
        try:
            parse_entry(value)
        except InputError as error:
            raise ValueError(wrong) from error
        return value

    @field_validator("requirements", "constraints")
    @classmethod
    def _rows(cls, value: tuple[str, ...] | str) -> tuple[str, ...] | str:
        if not isinstance(value, str):
            return checked_all(value)
        if _FILE.fullmatch(value):
            return value
        shown = one_line(value, 60)
        if value.endswith((".toml", ".lock")):
            raise ValueError(
                f"`{shown}` is no file of requirements: name the packages that you ask for, in a list or in a file "
                "requirements.txt; `envmgr lock` writes the lock"
            )
        try:
            checked(value)
        except ValueError:
            raise ValueError(f"`{shown}` is not the name of a file (requirements.txt) beside the recipe") from None
        raise ValueError(f"`{shown}` is a requirement and no file: write a list, `[{shown}]`")

    @field_validator("build")
    @classmethod
    def _names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        wrong = (name for name in value if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", name))
        refuse(f"`{name}` is not the name of a package; its version belongs to `requirements`" for name in wrong)
        return tuple(sorted({canonicalize_name(name) for name in value}))

    @field_validator("build_requires")
    @classmethod
    def _build_rows(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        return {canonicalize_name(name): checked_all(rows) for name, rows in sorted(value.items())}

    @model_validator(mode="after")
    def _built(self) -> Self:
        unbuilt = [f"build_requires: {name}" for name in self.build_requires if name not in self.build]
        named = [patch.package for patch in self.patches if patch.package is not None]
        unbuilt += [f"patches: {name}" for name in named if canonicalize_name(name) not in self.build]
        whose = [patch.file for patch in self.patches if patch.package is None and len(self.build) != 1]
        refuse(
            [
                *(f"{what} is not built from its source: name it in `build`" for what in unbuilt),
                *(f"patches: whose is {file}? Say `package`, a name of `build`" for file in whose),
            ]
        )
        return self

    @property
    def files(self) -> tuple[str, ...]:
        """The files beside the recipe that it names."""
        named = [value for value in (self.requirements, self.constraints) if isinstance(value, str)]
        return (*named, *(patch.file for patch in self.patches))


class WheelsQuestion(Question):
    """The input with the content of its files, which a lock answers. Rows are sorted as the recipe has them."""

    python: str
    build: tuple[str, ...] = ()
    build_requires: dict[str, tuple[str, ...]] = {}
    patches: tuple[Patch, ...] = ()

    def digest(self) -> str:
        """Return the digest of everything that is said: fields of sources count only where sources are built."""
        unused = {name for name in ("build", "build_requires", "patches") if not getattr(self, name)}
        return recipe_digest("wheels", self.model_dump(mode="json", exclude=unused))


def read_question(given: WheelsInput, folder: Path) -> WheelsQuestion:
    """Read the files that the input names, in the recipe's `folder`.

    Raises:
        InputError: `requirements-missing`, `requirement-invalid` with file and line; `patch-missing`, `patch-differs`.
    """
    if fault := next(question_faults(given, folder), None):
        raise fault
    requirements, constraints = (_rows(each, folder) for each in (given.requirements, given.constraints))
    said = given.model_dump(exclude={"requirements", "constraints", "exclude_newer", "patches"})
    return WheelsQuestion(
        requirements=requirements,
        constraints=constraints,
        exclude_newer=given.exclude_newer and given.exclude_newer.isoformat(),
        patches=tuple(_checked_patch(patch, folder, given.build) for patch in given.patches),
        **said,
    )


def question_faults(given: WheelsInput, folder: Path) -> Iterator[EnvmgrError]:
    """Yield the first fault of each file that the input names."""
    for value in (given.requirements, given.constraints):
        try:
            if not _rows(value, folder) and value == given.requirements:
                yield InputError("requirements-missing", f"{folder / str(value)} asks for nothing")
        except EnvmgrError as error:
            yield error
    for patch in given.patches:
        try:
            _checked_patch(patch, folder, given.build)
        except EnvmgrError as error:
            yield error


def _rows(value: tuple[str, ...] | str, folder: Path) -> tuple[str, ...]:
    """Return the requirements of a list, or those of a file. Raise InputError as `read_question`."""
    if not isinstance(value, str):
        return value
    rows = [*read_rows(path := folder / value, catalog_of(folder), hint=_BESIDE)]
    if hashed := [row.requirement for row in rows if row.sha256]:
        raise InputError(
            "requirement-invalid",
            f"{path} has hashes, and a recipe has none: its lock has one of each file",
            context=shortened(hashed),
            hint=f"`envmgr import {path} --as NAME/VERSION` makes another entry of the file; or take the hashes out",
        )
    return tuple(row.requirement for row in rows)


def _checked_patch(patch: Patch, folder: Path, build: Sequence[str]) -> Patch:
    """Return the patch with its package's name."""
    path = folder / patch.file
    if not os.path.lexists(path):
        raise InputError("patch-missing", f"{path} does not exist", hint=_BESIDE)
    try:
        data = read_bytes(path, BESIDE, tree=catalog_of(folder))
    except OSError as error:
        raise InputError("file-unreadable", f"cannot read {BESIDE.what} {path}", context=str(error.strerror)) from None
    require_visible_patch(data, path)
    if (found := sha256_bytes(data)) != patch.sha256:
        raise InputError(
            "patch-differs",
            f"{path} has another sha256 than recipe.yaml says",
            context=[f"recipe.yaml {patch.sha256}", f"file        {found}"],
            hint="take it back from git; or, if the change is meant, say the new sha256 in recipe.yaml and lock again",
        )
    return patch.model_copy(update={"package": canonicalize_name(patch.package or build[0])})


@dataclass(frozen=True, slots=True)
class BasePython:
    """The Python of an install. `version` is full (3.11.7) for an entry, and the minor one (3.11) for the system's.

    `entry` is None for the system's.
    """

    version: str
    entry: LoadedEntry | None

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])

    @property
    def name(self) -> str:
        return SYSTEM if self.entry is None else str(self.entry.lock.entry)


def load_base(text: str, of: Entry, site: Site) -> BasePython:
    """Return the base that a recipe names by `text`.

    Raises:
        EnvmgrError: `base-without-python`, and as the entry's lock, with the name of the entry `of` that is built on
            it.
    """
    if text.partition("/")[0] == SYSTEM:
        return BasePython(text.partition("/")[2] or _system_version(), None)
    entry = parse_entry(text)
    try:
        found = open_catalog(site).find(entry)
        recipe = found.recipe()
        lock = get_backend(recipe.backend).load_lock(entry, recipe, found.folder, site)
    except EnvmgrError as error:
        error.context = (*error.context, f"{of} stands on it: `python: {text}` in its recipe")
        raise
    if lock.python_version is None or not re.match(r"3\.\d+", lock.python_version):
        raise EnvmgrError(
            "base-without-python",
            f"{of} cannot stand on {entry}",
            context="its lock names no Python of its own",
            hint="`python:` names an entry that is a Python (python/3.11), or a conda environment with one",
        )
    return BasePython(lock.python_version, LoadedEntry(recipe, found.folder, lock))


def _system_version() -> str:
    """Return `3.11`: the operating system's `python3` is a link to that of a minor version."""
    name = (SYSTEM_PYTHONS / "python3").resolve().name.removeprefix("python")
    if not re.fullmatch(r"3\.[0-9]+", name):
        raise EnvmgrError(
            "base-without-python",
            f"{SYSTEM_PYTHONS}/python3 is no link to a Python of a minor version",
            hint="name one, as `python: system/3.11`, or an entry, as `python: python/3.11`",
        )
    return name
