"""The models of a recipe's `input` and of the site's settings under `backends.conda`; the solvers, and the folder of
downloaded packages.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import Field, ValidationInfo, field_validator

from envmgr.catalog.locks import recipe_digest
from envmgr.catalog.settings import backend_settings
from envmgr.catalog.site import Site
from envmgr.catalog.site_file import Mirrors
from envmgr.store.prefix import Prefix
from envmgr.system.models import FrozenModel, refuse
from envmgr.wheels.settings import PUBLIC
from envmgr.wording import masked, one_line

if TYPE_CHECKING:
    from envmgr.wheels.requirements import Question

# The virtual packages of a solve, unless the recipe sets others: Rocky 8 or newer. Never those of the locking host.
DEFAULT_VIRTUAL_PACKAGES = {"__unix": "0", "__linux": "4.18", "__glibc": "2.28"}
SOLVERS = ("rattler", "conda-lock")
_MACHINES = {"linux-64": "x86_64", "linux-aarch64": "aarch64"}  # the platforms that uv supports
OLDEST_GLIBC = 17  # 2.17, the oldest for which uv resolves
_OF_WHEELS = frozenset({"pip", "indexes", "exclude_newer"})
_LONGEST = 300  # characters of a spec
# No channel, URL, file or hash: the lock records each package's source and hash.
_SPEC = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*[A-Za-z0-9 ._,|<>=!~*+^$()-]*(\[[^/;#]+\])?")
_SOURCE = re.compile(r"\b(channel|subdir|url|fn|md5|sha256)\b")
_FILES = (".conda", ".tar.bz2")

_Any = TypeVar("_Any")


class CondaInput(FrozenModel):
    """A conda recipe's `input`. Virtual packages are `name: version [build]` and add to the defaults.

    `pip` are requirements, in pip's syntax, for wheels that are added to what `specs` bring. `indexes` (names of the
    site's indexes) and `exclude_newer` apply only to these wheels.
    """

    channels: tuple[str, ...] = Field(min_length=1)
    specs: tuple[str, ...] = Field(min_length=1)
    virtual_packages: dict[str, str] = {}
    platform: str = Field(default="linux-64", pattern=r"^linux-[a-z0-9]+$")
    pip: tuple[str, ...] = ()
    indexes: tuple[str, ...] = Field(default=(PUBLIC,), min_length=1)
    exclude_newer: datetime.date | None = None

    @field_validator("channels")
    @classmethod
    def _no_secrets(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        secret = (masked(value) for value in values if masked(value) != value)
        refuse(f"`{each}`: a recipe holds no name, password or token: the site's mirrors may" for each in secret)
        return values

    @field_validator("specs", mode="before")
    @classmethod
    def _no_file(cls, value: object) -> object:
        if isinstance(value, str) and value.endswith((".yml", ".yaml")):
            raise ValueError(
                f"`{one_line(value, 60)}` is a file: write its `dependencies` here as a list, and its lists `channels` "
                "and `pip` in the fields of these names"
            )
        return value

    @field_validator("specs")
    @classmethod
    def _no_extras(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        refuse(
            f"`{one_line(value, 60)}`: write `name [version [build]]`; channels have their own field"
            for value in map(str.strip, values)
            if len(value) > _LONGEST
            or not _SPEC.fullmatch(value)
            or value.endswith(_FILES)
            or _SOURCE.search(value.partition("[")[2])
        )
        return values

    @field_validator("virtual_packages")
    @classmethod
    def _double_underscore(cls, values: dict[str, str]) -> dict[str, str]:
        bare = (name for name in values if not name.startswith("__"))
        long = (name for name, value in values.items() if len(name) + len(value) > _LONGEST)
        most = f"it and its version have {_LONGEST} characters at most"
        refuse(
            [
                *(f"`{one_line(name, 60)}`: virtual packages begin with __" for name in bare),
                *(f"`{one_line(name, 60)}`: {most}" for name in long),
            ]
        )
        return values

    @field_validator("pip")
    @classmethod
    def _rows(cls, values: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if values and {"virtual_packages", "platform"} <= info.data.keys():  # they are valid
            wheel_platform(info.data["platform"], info.data["virtual_packages"])
        if not values:
            return ()
        from envmgr.wheels.requirements import checked_all  # slow to load, and most recipes ask for no wheels

        return checked_all(values)

    @field_validator("indexes", "exclude_newer")
    @classmethod
    def _for_wheels(cls, value: _Any, info: ValidationInfo) -> _Any:
        # An invalid `pip` is missing in `data`, and has its own fault.
        if not info.data.get("pip", True):
            raise ValueError("it is for the wheels that `pip` asks for, and there is no `pip`")
        return value

    def question(self) -> Question:
        """Return the question for the indexes, if the input has `pip`."""
        from envmgr.wheels.requirements import Question

        date = self.exclude_newer
        return Question(
            requirements=self.pip,
            indexes=self.indexes,
            exclude_newer=None if date is None else date.isoformat(),
            platform=wheel_platform(self.platform, self.virtual_packages),
        )

    def all_virtual_packages(self) -> dict[str, str]:
        merged = DEFAULT_VIRTUAL_PACKAGES | self.virtual_packages
        return dict(sorted(merged.items()))

    def digest(self) -> str:
        """Return the digest of the input that the lock answers. It includes the defaults: a change of them makes locks
        stale. Fields for wheels count only if there is `pip`.
        """
        said = self.model_dump(mode="json", exclude=None if self.pip else set(_OF_WHEELS))
        return recipe_digest("conda", {**said, "virtual_packages": self.all_virtual_packages()})


def wheel_platform(platform: str, virtual_packages: Mapping[str, str]) -> str:
    """Return uv's name of the platform on which wheels must run, from the virtual packages and never from the host.

    Raises ValueError if there are no wheels for it.
    """
    if platform not in _MACHINES:
        raise ValueError(f"there are no wheels for {platform}; there are for {', '.join(_MACHINES)}")
    glibc = re.match(r"2\.([0-9]{1,3})(?![0-9])", (DEFAULT_VIRTUAL_PACKAGES | dict(virtual_packages))["__glibc"])
    if glibc is None or int(glibc[1]) < OLDEST_GLIBC:
        raise ValueError(f"wheels need `__glibc` 2.{OLDEST_GLIBC} or newer among `virtual_packages`")
    return f"{_MACHINES[platform]}-manylinux_2_{glibc[1]}"


class Channel(FrozenModel):
    """A conda channel: its canonical URL, which locks record, and mirrors (URL or folder), which are tried first, in
    order.

    A folder that holds only `repodata.json` is a snapshot: it is used for locking, and downloads use the next place.
    `note` describes a snapshot; it is written into locks made from it.
    """

    url: str
    mirrors: Mirrors = ()
    note: str = ""

    @field_validator("url")
    @classmethod
    def _url(cls, value: str) -> str:
        if not re.fullmatch(r"(https?|file)://[^\s]+", value):
            raise ValueError("must be an http(s):// or file:// URL")
        if masked(value) != value:
            raise ValueError(
                "must be without a name, a password or a token, for locks record it: mirrors may have them"
            )
        return value.rstrip("/")


DEFAULT_CHANNELS: Mapping[str, Channel] = {
    name: Channel(url=f"https://conda.anaconda.org/{name}") for name in ("conda-forge", "nvidia", "pytorch")
}


class CondaSettings(FrozenModel):
    """The section `backends.conda` of the site."""

    channels: dict[str, Channel] = {}
    program: Path | None = Field(default=None, description="conda, mamba or micromamba, for --solver conda-lock")


def package_cache(prefix: Prefix) -> Path:
    """Return the folder of downloaded packages: `<sha256>/<file name>`."""
    return prefix.cache / "conda"


def channels_of(site: Site) -> dict[str, Channel]:
    """Return the channels by name, including the default ones; mirrors are URLs."""
    own = backend_settings(site, "conda", CondaSettings).channels
    found = {n: c.model_copy(update={"mirrors": site.absolute_mirrors(c.mirrors)}) for n, c in own.items()}
    return {**DEFAULT_CHANNELS, **found}


def places_of(names: Iterable[str], site: Site) -> set[str]:
    """Return the places from which packages of these channels may come, as locks write them.

    These are their URLs here, their default URLs, and their mirrors.
    """
    known = channels_of(site)
    found: set[str] = set()
    for name in names:
        channels = [each for each in (known.get(name), DEFAULT_CHANNELS.get(name)) if each is not None]
        found |= {place.rstrip("/") for each in channels for place in (each.url, *each.mirrors)}
        if not channels:
            found.add(name.rstrip("/"))
    return found


def program_of(site: Site) -> Path | None:
    program = backend_settings(site, "conda", CondaSettings).program
    return None if program is None else site.absolute(program)
