"""`easybuild-lock.yml`: what an easyconfig resolved to, exactly. Data, its text, and what the text must say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from envmgr.backends.easybuild.capabilities import (
    SETTINGS,
    AmdCapabilities,
    CudaCapabilities,
    Setting,
    handed_to,
    said_by,
)
from envmgr.catalog.locks import read_lock_file
from envmgr.system.models import FrozenModel
from envmgr.system.yamlfile import dump_yaml
from envmgr.wheels.settings import PUBLIC, index_of, url_with_host, url_without_host

LOCK_NAME = "easybuild-lock.yml"
_HEAD = "# Written by `envmgr lock`: everything that EasyBuild builds for this entry, in build order. Lock again instead of editing.\n"
PACKAGES = ("easybuild-framework", "easybuild-easyblocks", "easybuild-easyconfigs")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def letter_folder(name: str) -> str:
    """`z/zlib`, `0/4ti2`. Source: easybuild-framework, `letter_dir_for`."""
    return f"{name[0].lower() if name[0].isalpha() else '0'}/{name}"


def _file_name(value: str) -> str:
    if "/" in value or value in ("", ".", ".."):
        raise ValueError("must be a file name")
    return value


def _sha256(value: str) -> str:
    if not _SHA256.fullmatch(value):
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


def _whole_url(value: object) -> object:
    return url_with_host(value) if isinstance(value, str) else value


def _of_the_index(value: str) -> str:
    if index_of(value) != PUBLIC:
        raise ValueError(f"`{value}` is no place of the package index `{PUBLIC}`")
    return value


FileName = Annotated[str, AfterValidator(_file_name)]
Sha256 = Annotated[str, AfterValidator(_sha256)]
FolderName = Annotated[str, AfterValidator(_folder_name)]
Folder = Annotated[str, AfterValidator(_folder)]


class LockedFile(FrozenModel):
    """A file and its sha256 (64 hex digits). `folder` is where EasyBuild looks for it, where that is not its easyconfig's own."""

    name: FileName
    sha256: Sha256
    folder: Folder = ""


class LockedSource(LockedFile):
    """A source. `urls` are upstream's, in order of trial; `unhashed` is why it was locked by what was downloaded."""

    urls: tuple[str, ...] = ()
    unhashed: str = ""


class LockedItem(FrozenModel):
    """One easyconfig. `version` is EasyBuild's full one (with toolchain and suffix); `depends` are `name/version` of items before it that
    it runs with, `build_depends` of those that only its build needs.

    `origin` is where the easyconfig lies: in a folder of the site or of envmgr, or in EasyBuild itself. `files` are sources that lie
    beside it. `os_packages` are lists of alternatives. `eulas` are the softwares whose licence agreement its easyblock asks for,
    or that the easyconfig itself accepts. `python` is that its easyblock makes a conda environment, with a Python in it, whatever
    the software's name. `asks` are the settings of GPUs that it is built with, where they say anything.
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
    python: bool = False
    asks: tuple[Setting, ...] = ()
    instructions: str = Field(default="", description="how to get what cannot be downloaded, in the easyconfig's words")

    @property
    def key(self) -> str:
        return f"{self.name}/{self.version}"

    @property
    def beside(self) -> tuple[LockedFile, ...]:
        """What lies in the easyconfig's folder and belongs to it."""
        return (*self.patches, *self.files)

    @property
    def folder(self) -> str:
        """Where EasyBuild looks for its easyconfig and its sources: `z/zlib`."""
        return letter_folder(self.name)


class EasyBuildFile(FrozenModel):
    """What a private EasyBuild is made from: the source of one of its packages, or a wheel that builds them.

    `package` is the name in the index, normalised, `name` the file's. `url` is its place, by index: see `locked_url`; a lock's text has
    it without the index's host.
    """

    package: FolderName
    version: FolderName
    name: FileName
    sha256: Sha256
    url: Annotated[str, BeforeValidator(_whole_url), AfterValidator(_of_the_index), PlainSerializer(url_without_host)]

    @model_validator(mode="after")
    def _named(self) -> Self:
        """Only a project's own people can put a file of its name into the index."""
        if self.url.rpartition("/")[2] != self.name:
            raise ValueError(f"`{self.url}` is no place of {self.name}")
        read = parse_wheel_filename if self.name.endswith(".whl") else parse_sdist_filename
        try:
            same = read(self.name)[:2] == (self.package, Version(self.version))
        except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
            same = False
        if not same:
            raise ValueError(f"`{self.name}` is no file of {self.package} {self.version}")
        return self

    @property
    def builds(self) -> bool:
        """Whether it is the build tool, no part of EasyBuild."""
        return self.package not in PACKAGES


class EasyBuildLock(FrozenModel):
    """A resolved easyconfig: `items` in build order, the entry's own last. `recipe` is the digest of the recipe's input.

    `easybuild_sha256` is of EasyBuild's own files, where it is installed (`contents_sum`); `easybuild_files` are what an
    installation is made from. Both are empty in locks of an earlier envmgr. No install's digest covers them: what they hold fast
    are the versions, which are in the digests. The capabilities are those that items ask for.
    """

    version: Literal[1] = 1
    recipe: str
    framework: str
    easyblocks: str
    easybuild_sha256: Annotated[str, AfterValidator(lambda value: value and _sha256(value))] = ""
    easybuild_files: tuple[EasyBuildFile, ...] = ()
    rpath: bool
    filter_deps: tuple[str, ...] = ()
    accept_eula: tuple[str, ...] = ()
    cuda_compute_capabilities: CudaCapabilities = ()
    amdgcn_capabilities: AmdCapabilities = ()
    gpus_seen: bool = Field(
        default=False, description="of a closure with software for GPUs: what asks for them was looked for"
    )
    items: tuple[LockedItem, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _whole(self) -> EasyBuildLock:
        """All of EasyBuild and what builds it, or nothing: the rest would come from nowhere."""
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


def lock_text(lock: EasyBuildLock) -> str:
    """The same lock gives the same bytes."""
    document = lock.model_dump(mode="json", exclude_defaults=True)
    return _HEAD + dump_yaml({"version": 1, **document}, width=160)


def read_lock(folder: Path) -> tuple[EasyBuildLock, str]:
    """The lock beside a recipe, and the sha256 of its text.

    Raises:
        EnvmgrError: `lock-missing`; InputError: `lock-invalid`.
    """
    return read_lock_file(folder / LOCK_NAME, EasyBuildLock, of="EasyBuild")


def describe(lock: EasyBuildLock) -> Mapping[str, str]:
    """name -> what diffs, generations and plans show of it: the version, and the first digits of the easyconfig's sha256.

    Where it asks for GPUs, these too. EasyBuild's framework is among them: another version of it builds everything anew. Of two items of one name, the versions are
    part of their names.
    """
    times = Counter(item.name for item in lock.items)
    names = {item.key: item.name if times[item.name] == 1 else item.key for item in lock.items}
    said = said_by(lock)
    items = {}
    for item in lock.items:
        values = [value for each in handed_to(item.asks, said).values() for value in each]
        items[names[item.key]] = f"{item.version} {item.sha256[:8]}" + (f" for {', '.join(values)}" if values else "")
    return {"easybuild-framework": lock.framework} | items
