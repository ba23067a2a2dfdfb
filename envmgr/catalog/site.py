"""The site: where things lie on this cluster. One `site.yaml`, or the embedded single-node site."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from envmgr.catalog.target import CpuLevel
from envmgr.errors import InputError
from envmgr.system.resources import shipped
from envmgr.system.users import user_name
from envmgr.system.yamlfile import load_model, reason_of

# The text that binary packages carry where their prefix goes is 255 characters long: no longer path fits.
MAX_PREFIX = 255
FILE_NAME = "site.yaml"
SYSTEM_FILE = Path("/etc/envmgr/site.yaml")
# Where fields once stood -> the backend whose settings they are, and their name there. They are still read.
OLD_KEYS = {
    "channels": ("conda", "channels"),
    "conda": ("conda", "program"),
    "easyconfigs": ("easybuild", "easyconfigs"),
}


def is_plain_path(path: Path) -> bool:
    """Whether it can stand in PATH, #! lines, makefiles and shell texts: no spaces, colons, quotes or shell characters."""
    text = str(path)
    return text.isprintable() and text.isascii() and not re.search(r"[\s:'\"\\$`;&|<>(){}*?\[\]!#~%]", text)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NodeGroup(_Model):
    """Nodes of one hardware kind: a ClusterShell node set, a Slurm partition, or an Ansible inventory group."""

    nodes: str | None = None
    slurm: str | None = None
    ansible: str | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> NodeGroup:
        if sum(v is not None for v in (self.nodes, self.slurm, self.ansible)) != 1:
            raise ValueError("give exactly one of nodes, slurm, ansible")
        return self


class Transport(_Model):
    """How nodes are reached. `fanout` is connections at once; times are wall-clock seconds.

    `become` is put before the shell on the node (`sudo -n`); `slurm_options` are given to every srun and sbatch.
    """

    via: Literal["ssh", "slurm", "both"] = "ssh"
    user: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.][A-Za-z0-9_.@-]*$")
    become: str | None = None
    fanout: int = Field(default=64, ge=1)
    connect_timeout: float = Field(default=10, gt=0)
    queue_timeout: float = Field(default=30, gt=0, description="seconds that a job or step may wait for a busy node")
    node_timeout: float = Field(default=60, gt=0)
    deadline: float = Field(default=600, gt=0)
    persist: float = Field(default=60, ge=0, description="seconds that an ssh connection is kept for the next command")
    slurm_options: tuple[str, ...] = ()
    inventory: Path | None = Field(default=None, description="Ansible inventory, for groups by `ansible`")

    @field_validator("become")
    @classmethod
    def _words(cls, value: str | None) -> str | None:
        if value is not None and (not value.strip() or not re.fullmatch(r"[\w ./=:@-]+", value)):
            raise ValueError("must be a plain command, such as `sudo -n`")
        return value

    @field_validator("slurm_options")
    @classmethod
    def _options(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            if not re.fullmatch(r"--[a-z][a-z-]*(=\S+)?", value):
                raise ValueError(f"`{value}` is not an option such as --partition=gpu")
        return values


class Mount(_Model):
    """How nodes should have the prefix. `source` is as in mountinfo (`fs1:/export`); `writable` is a node set."""

    source: str | None = None
    writable: str | None = None
    attribute_cache: float | None = Field(
        default=None, ge=0, description="seconds after which every node sees a change; else by the mount's options"
    )


class Audit(_Model):
    """What `envmgr audit` looks at. `user` is the ordinary user whose shells are looked at."""

    user: str | None = Field(default=None, pattern=r"^[a-z_][a-z0-9_.-]*$")
    ldd: Literal["sample", "full", "none"] = "sample"
    max_skew: float = Field(default=5, gt=0, description="seconds that a node's clock may be off")
    min_inodes: int = Field(default=100_000, ge=0, description="inodes that the prefix's file system must have free")


def _mirrors(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if not re.fullmatch(r"(https?|file)://[^\s]+", value) and ("://" in value or not value.strip("/")):
            raise ValueError(f"`{value}` is neither an http(s):// or file:// URL nor a folder")
    return tuple(v.rstrip("/") for v in values)


# URLs, or folders as written, in the order in which they are tried.
Mirrors = Annotated[tuple[str, ...], AfterValidator(_mirrors)]


class Sources(_Model):
    """Where files that builds start from come from: mirrors (URL or folder), in order, then upstream's own URLs.

    A mirror has files as their software's folder has them (`z/zlib/zlib-1.3.1.tar.gz`), `<sha256>/<file>`, or side by side.
    """

    mirrors: Mirrors = ()
    upstream: bool = Field(default=True, description="whether upstream's own URLs are tried")


class Policies(_Model):
    """What the site decides. Sizes are bytes, times seconds unless named otherwise."""

    keep_generations: int = Field(default=10, ge=1, description="generations kept whatever their age")
    keep_days: float = Field(
        default=60, ge=0, description="days a generation is kept: longer than the longest job or session"
    )
    licences: tuple[str, ...] = ()
    umask: str = Field(default="022", pattern=r"^0?[0-7]{3}$")
    group: str | None = None
    user_site: bool = Field(default=False, description="let Python see the user's ~/.local")
    driver_gate: Literal["warn", "refuse"] = "warn"
    gate: Literal["off", "warn", "refuse"] = Field(
        default="off", description="whether a build asks the last audit's facts if the nodes can run the entry"
    )
    min_free: int = Field(default=1 << 30, ge=0, description="bytes that a build must leave free")
    stall_timeout: float = Field(default=60, gt=0, description="seconds without a byte before a download is given up")
    download_retries: int = Field(default=2, ge=0)

    @property
    def mask(self) -> int:
        return int(self.umask, 8)


class LmodSettings(_Model):
    """Where Lmod lies, when not in a usual place: the folder with `lmod` and `update_lmod_system_cache_files`."""

    dir: Path | None = None


class SiteFile(_Model):
    """`site.yaml` as written. Relative paths are relative to the file. `backends` are checked by the backends themselves."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    name: str = "site"
    prefix: Path
    catalogs: tuple[Path, ...] = ()
    build_dir: Path | None = Field(
        default=None, description="where software is compiled; else the system's folder for temporary files"
    )
    build_user: str | None = None
    login_nodes: str | None = None
    groups: dict[str, NodeGroup] = {}
    transport: Transport = Transport()
    mount: Mount = Mount()
    audit: Audit = Audit()
    backends: dict[str, dict[str, Any]] = {}
    sources: Sources = Sources()
    cpu_level: CpuLevel = "x86-64-v2"
    lmod: LmodSettings = LmodSettings()
    policies: Policies = Policies()
    channels: Any = None
    conda: Any = None
    easyconfigs: Any = None

    @field_validator(*OLD_KEYS)
    @classmethod
    def _given_once(cls, value: Any, info: ValidationInfo) -> Any:
        backend, key = OLD_KEYS[info.field_name or ""]
        if key in info.data.get("backends", {}).get(backend, {}):
            raise ValueError(f"is backends.{backend}.{key} now, which is there too: keep that one")
        return value

    @property
    def old_keys(self) -> tuple[str, ...]:
        return tuple(key for key in OLD_KEYS if key in self.model_fields_set)

    @field_validator("prefix")
    @classmethod
    def _prefix(cls, value: Path) -> Path:
        text = str(value)
        if not value.is_absolute():
            raise ValueError("must be an absolute path: the same on every node")
        if not is_plain_path(value):
            raise ValueError(
                "must be without spaces, colons, quotes and shell characters: it goes into PATH and #! lines"
            )
        if ".." in value.parts:
            raise ValueError("must not contain `..`")
        if value.parent == value:
            raise ValueError("must not be /")
        if text.startswith("//"):
            raise ValueError("must begin with one /")
        return value


class Site(_Model):
    """The site as the code uses it: absolute paths, the shipped catalog last, `source` None when embedded.

    `backends` is raw, a mapping for each backend that has settings; `old_keys` are those of `OLD_KEYS` that the file has.
    """

    source: Path | None
    name: str
    prefix: Path
    catalogs: tuple[Path, ...]
    build_dir: Path | None
    build_user: str | None
    login_nodes: str | None
    groups: dict[str, NodeGroup]
    transport: Transport
    mount: Mount
    audit: Audit
    backends: dict[str, dict[str, Any]]
    sources: Sources
    cpu_level: CpuLevel
    lmod: LmodSettings
    policies: Policies
    old_keys: tuple[str, ...] = ()

    @property
    def shipped_catalog(self) -> Path:
        return self.catalogs[-1]

    def absolute(self, path: Path) -> Path:
        """A path as it is meant in the site file."""
        return _under(self.source.parent if self.source else Path("/"), path)

    def absolute_mirrors(self, mirrors: Sequence[str]) -> tuple[str, ...]:
        """Mirrors as URLs."""
        return _urls(mirrors, self.source.parent if self.source else Path("/"))

    def with_settings(self, backend: str, **settings: Any) -> Site:
        """The same site with other settings of one backend."""
        return self.model_copy(update={"backends": {**self.backends, backend: settings}})


def find_site(explicit: Path | None, environ: Mapping[str, str], cwd: Path) -> Path | None:
    """The site file to use: `--site`, `$ENVMGR_SITE`, upwards from `cwd`, `/etc`; None for the embedded site.

    Raises:
        InputError: `site-missing` for a named one that is not there, `site-unreadable` where it cannot be looked for.
    """
    for named, by in ((explicit, "--site"), (environ.get("ENVMGR_SITE"), "$ENVMGR_SITE")):
        if named:
            path = Path(named)
            with _readable(path, by):
                path = path / FILE_NAME if path.is_dir() else path
                if not path.exists():
                    raise InputError("site-missing", f"{path} does not exist", context=f"named by {by}")
                return path.resolve()
    for folder in (cwd, *cwd.parents):
        with suppress(PermissionError):  # a folder above that is not ours to read has no site for us
            if (candidate := folder / FILE_NAME).is_file():
                return candidate
    with _readable(SYSTEM_FILE, "default"):
        return SYSTEM_FILE if SYSTEM_FILE.is_file() else None


@contextmanager
def _readable(path: Path, by: str) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise InputError(
            "site-unreadable", f"cannot look for {path}", context=f"{error.strerror}; named by {by}",
            hint=f"let everybody read it: chmod o+rx {path.parent}",
        ) from None  # fmt: skip


def load_site(path: Path | None, environ: Mapping[str, str]) -> Site:
    """Read and check a site file, or make the embedded site.

    Raises:
        InputError: `site-untrusted` (a file that neither the caller nor root owns decides where root writes), `site-invalid`.
    """
    if path is None:
        return _resolve(_embedded(embedded_prefix(environ)), None)
    _refuse_foreign(path)
    return _resolve(load_model(path, SiteFile, what="site file", reference="site-invalid"), path)


def embedded_prefix(environ: Mapping[str, str]) -> Path:
    """`/opt/envmgr` for root, else under the user's data folder. Source: XDG Base Directory Specification."""
    if os.geteuid() == 0:
        return Path("/opt/envmgr")
    data = environ.get("XDG_DATA_HOME", "")
    home = environ.get("HOME") or pwd.getpwuid(os.geteuid()).pw_dir
    return (Path(data) if data.startswith("/") else Path(home) / ".local/share") / "envmgr"


def _embedded(prefix: Path) -> SiteFile:
    try:
        return SiteFile(name="embedded", prefix=prefix)
    except ValidationError as error:
        reason = reason_of(error.errors()[0])
        raise InputError(
            "site-invalid",
            f"{prefix} cannot be the prefix",
            context=f"it {reason}",
            hint="name another: `envmgr init --prefix`",
        ) from None


def _resolve(file: SiteFile, path: Path | None) -> Site:
    base = path.parent if path else Path("/")
    fields = {name: getattr(file, name) for name in SiteFile.model_fields if name in Site.model_fields}
    fields["catalogs"] = (*(_under(base, c) for c in file.catalogs), shipped("recipes"))
    if file.build_dir is not None:
        fields["build_dir"] = _under(base, file.build_dir)
    if file.transport.inventory is not None:
        inventory = _under(base, file.transport.inventory)
        fields["transport"] = file.transport.model_copy(update={"inventory": inventory})
    fields["sources"] = file.sources.model_copy(update={"mirrors": _urls(file.sources.mirrors, base)})
    backends = {name: {**settings} for name, settings in file.backends.items()}
    for key in file.old_keys:
        backend, name = OLD_KEYS[key]
        backends.setdefault(backend, {})[name] = getattr(file, key)
    return Site(source=path, **{**fields, "backends": backends, "old_keys": file.old_keys})


def _urls(mirrors: Sequence[str], base: Path) -> tuple[str, ...]:
    return tuple(m if "://" in m else _under(base, Path(m)).as_uri() for m in mirrors)


def _under(base: Path, path: Path) -> Path:
    """`path` as it is meant in a file that lies in `base`."""
    try:
        return (base / path.expanduser()).resolve()
    except RuntimeError:
        raise InputError("site-invalid", f"`{path}` names the home of a user that does not exist here") from None


def _refuse_foreign(path: Path) -> None:
    try:
        status = path.stat()
    except OSError as error:
        raise InputError("site-missing", f"cannot read {path}", context=str(error)) from None
    if status.st_uid not in (os.geteuid(), 0):
        raise InputError(
            "site-untrusted",
            f"{path} belongs to {user_name(status.st_uid)}, neither to you nor to root",
            context="a site file decides what is written where and what runs",
            hint="check it, then `chown` it, or name another one with --site",
        )
    if status.st_mode & 0o002:
        raise InputError("site-untrusted", f"{path} can be written by everyone", hint=f"chmod o-w {path}")
