"""The lock of an easyconfig, `easybuild-lock.yml`: its data, its text, and the rules for the text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from packaging.utils import parse_sdist_filename, parse_wheel_filename
from packaging.version import Version
from pydantic import AfterValidator, Field, model_validator

from envmgr.backends.easybuild.settings import SETTINGS, AmdCapabilities, CudaCapabilities, Setting, handed_to, said_by
from envmgr.catalog.locks import read_lock_file
from envmgr.system.models import FrozenModel
from envmgr.system.yamlfile import dump_yaml
from envmgr.wheels.lockfile import LockedRow, is_file_of

LOCK_NAME = "easybuild-lock.yml"
_FORMAT = 1  # the lock's `version`
_HEAD = (
    "# Written by `envmgr lock`: everything that EasyBuild builds for this entry, in build order. "
    "Lock again instead of editing.\n"
)
PACKAGES = ("easybuild-framework", "easybuild-easyblocks", "easybuild-easyconfigs")


def letter_folder(name: str) -> str:
    """Return `z/zlib` or `0/4ti2`. Source: easybuild-framework, `letter_dir_for`."""
    return f"{name[0].lower() if name[0].isalpha() else '0'}/{name}"


def _file_name(value: str) -> str:
    if "/" in value or value in ("", ".", ".."):
        raise ValueError("must be a file name")
    return value


def _sha256(value: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", value):
        raise ValueError("must be 64 hex digits")
    return value


def _folder_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._+-]*", value) or ".." in value:
        raise ValueError(f"`{value}` cannot be a folder's name")
    return value


def _folder(value: str) -> str:
    letter, _, name = value.partition("/")
    if value and letter_folder(_folder_name(name)) != f"{letter}/{name}":
        raise ValueError(f"`{value}` is not a folder of easyconfigs")
    return value


FileName = Annotated[str, AfterValidator(_file_name)]
Sha256 = Annotated[str, AfterValidator(_sha256)]
FolderName = Annotated[str, AfterValidator(_folder_name)]
Folder = Annotated[str, AfterValidator(_folder)]


class LockedFile(FrozenModel):
    """A file and its sha256 (64 hex digits). EasyBuild looks for it in `folder`; empty for its easyconfig's own."""

    name: FileName
    sha256: Sha256
    folder: Folder = ""


class LockedSource(LockedFile):
    """A source. `urls` are upstream's, in order of trial; `unhashed` is why it was locked by what was downloaded."""

    urls: tuple[str, ...] = ()
    unhashed: str = ""


class LockedItem(FrozenModel):
    """One easyconfig. `version` is EasyBuild's full one, with toolchain and suffix.

    `depends` are `name/version` of items before it that it runs with, `build_depends` of those that only its build
    needs. `origin` is where the easyconfig lies: in a folder of the site or of envmgr, or in EasyBuild itself.
    `files` are sources that lie beside it. `os_packages` are lists of alternatives. `eulas` are the softwares whose
    licence agreement its easyblock asks for, or that the easyconfig itself accepts. `asks` are the settings of GPUs
    that it is built with, if they are set.
    """

    name: FolderName
    version: FolderName
    easyconfig: FileName
    origin: Literal["catalog", "easybuild"]
    sha256: Sha256
    depends: tuple[str, ...] = ()
    build_depends: tuple[str, ...] = ()
    sources: tuple[LockedSource, ...] = ()
    patches: tuple[LockedFile, ...] = ()
    files: tuple[LockedSource, ...] = ()
    eulas: tuple[str, ...] = ()
    os_packages: tuple[tuple[str, ...], ...] = ()
    extensions: tuple[str, ...] = ()
    asks: tuple[Setting, ...] = ()
    instructions: str = Field(default="", description="how to get what cannot be downloaded, in the easyconfig's words")

    @property
    def key(self) -> str:
        return f"{self.name}/{self.version}"

    @property
    def beside(self) -> tuple[LockedFile, ...]:
        """The files in the easyconfig's folder that belong to it."""
        return (*self.patches, *self.files)

    @property
    def folder(self) -> str:
        """The folder in which EasyBuild looks for its easyconfig and its sources: `z/zlib`."""
        return letter_folder(self.name)


def project_of(file: str) -> tuple[str, Version]:
    """Return the project and version in the name of a wheel or source. Raises ValueError for another name."""
    return (parse_wheel_filename if file.endswith(".whl") else parse_sdist_filename)(file)[:2]


class EasyBuildFile(FrozenModel):
    """A file that a private EasyBuild is made from: the source of one of its packages, or a wheel that builds them.

    `package` is the normalised name in the index, `name` the file's. The index says where the file lies.
    """

    package: FolderName
    version: FolderName
    name: FileName
    sha256: Sha256

    @model_validator(mode="after")
    def _named(self) -> Self:
        """Raise ValueError for another project's file: only a project can put a file of its own name into the index."""
        if not is_file_of(self.row, self.name):
            raise ValueError(f"`{self.name}` is no file of {self.package} {self.version}")
        return self

    @property
    def row(self) -> LockedRow:
        return LockedRow(name=self.package, version=self.version, sha256=self.sha256)

    @property
    def builds(self) -> bool:
        """True for the build tool, which is not a part of EasyBuild."""
        return self.package not in PACKAGES


class EasyBuildLock(FrozenModel):
    """A resolved easyconfig: `items` in build order, the entry's own last. `recipe` is the digest of its input.

    `easybuild_sha256` is that of EasyBuild's own files where it is installed (`contents_sum`). `easybuild_files` are
    what an installation is made from; empty if no index could be asked. No install's digest covers these two: it has
    the versions, which they hold fast. The capabilities are those that items ask for.
    """

    version: int = _FORMAT
    recipe: str
    framework: str
    easyblocks: str
    easybuild_sha256: Sha256
    easybuild_files: tuple[EasyBuildFile, ...] = ()
    rpath: bool
    filter_deps: tuple[str, ...] = ()
    accept_eula: tuple[str, ...] = ()
    cuda_compute_capabilities: CudaCapabilities = ()
    amdgcn_capabilities: AmdCapabilities = ()
    items: tuple[LockedItem, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _whole(self) -> EasyBuildLock:
        """Raise ValueError unless all of EasyBuild is there with what builds it, or nothing."""
        parts = sorted(file.package for file in self.easybuild_files if not file.builds)
        if other := [f for f in self.easybuild_files if not f.builds and f.version != self.framework]:
            raise ValueError(
                f"easybuild_files has {other[0].package} {other[0].version} for EasyBuild {self.framework}"
            )
        if self.easybuild_files and (parts != sorted(PACKAGES) or len(parts) == len(self.easybuild_files)):
            raise ValueError("easybuild_files must have EasyBuild's three packages, each once, and what builds them")
        return self

    @model_validator(mode="after")
    def _closed(self) -> EasyBuildLock:
        seen: set[str] = set()
        for item in self.items:
            if missing := [d for d in (*item.depends, *item.build_depends) if d not in seen]:
                raise ValueError(f"{item.key} depends on {missing[0]}, which is not before it")
            if item.key in seen:
                raise ValueError(f"{item.key} is there twice")
            seen.add(item.key)
        asked = {setting for item in self.items for setting in item.asks}
        if idle := [setting for setting in SETTINGS if getattr(self, setting) and setting not in asked]:
            raise ValueError(f"no item asks for {idle[0]}")
        return self


def render_lock(lock: EasyBuildLock) -> str:
    """Return the text of the lock. The same lock gives the same bytes."""
    document = lock.model_dump(mode="json", exclude_defaults=True)
    return _HEAD + dump_yaml({"version": _FORMAT, **document}, width=160)


def read_easybuild_lock(folder: Path) -> tuple[EasyBuildLock, str]:
    """Return the lock beside a recipe, and the sha256 of its text.

    Raises:
        EnvmgrError: `lock-missing`; InputError: `lock-invalid`.
    """
    return read_lock_file(folder / LOCK_NAME, EasyBuildLock, of="EasyBuild", known=_FORMAT)


def locked_versions(lock: EasyBuildLock) -> Mapping[str, str]:
    """Map each name to what diffs, generations and plans show of it: the version, the start of its easyconfig's sha256.

    An item that asks for GPUs also shows them. EasyBuild's framework is among the names: another version of it builds
    everything again. If two items have one name, their names include the versions.
    """
    times = Counter(item.name for item in lock.items)
    said, shown = said_by(lock), {"easybuild-framework": lock.framework}
    for item in lock.items:
        values = [value for each in handed_to(item.asks, said).values() for value in each]
        name = item.name if times[item.name] == 1 else item.key
        shown[name] = f"{item.version} {item.sha256[:8]}" + (f" for {', '.join(values)}" if values else "")
    return shown


# EasyBuild as it was released, in the version that locks a recipe that names none: `envmgr lock` asks no index for it.
# A new version gets its rows from the lock of a recipe that names it.
_RELEASED = {
    "easybuild_framework-5.4.1.tar.gz": "18c7cb3cdb448a2ec9b4f9cdc38517b5f9ca1b63b5691f1589f67f114958c2c9",
    "easybuild_easyblocks-5.4.1.tar.gz": "ec76f56bfb6398ecb863dfc456a15aacc8da8c1ebf21e560a1410d8210825386",
    "easybuild_easyconfigs-5.4.1.tar.gz": "9b0407a0dd19d4c1ccfd2735392df0d22a09738254b10fc3ed7cf826d44c47c2",
    "setuptools-84.2.1-py3-none-any.whl": "ca140b45d5325a9478f880e351484f62fef15f336462e449ca0c03c873d589c2",
}


def _released(name: str, sha256: str) -> EasyBuildFile:
    package, version = project_of(name)
    return EasyBuildFile(package=package, version=str(version), name=name, sha256=sha256)


DEFAULT_FILES = tuple(_released(name, sha256) for name, sha256 in _RELEASED.items())
DEFAULT_CONTENTS = "3e6100ec664c3a14e0c6dc5c78f97c383816c8931f4a95fcd581c993a7300047"
"""`contents_sum` of what DEFAULT_FILES install."""
