"""`site.yaml` as written: its fields, each with what it may hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from envmgr.system.models import refuse

CpuLevel = Literal["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"]

# A node of a level runs what was built for that level or a lower one. Source: x86-64 psABI, "Micro-Architecture
# Levels".
CPU_ORDER = {"x86-64": 1, "x86-64-v2": 2, "x86-64-v3": 3, "x86-64-v4": 4}


def is_plain_path(path: Path) -> bool:
    """Return whether a path can stand in PATH, #! lines, makefiles and shell text: no spaces, colons, quotes or shell
    characters.
    """
    text = str(path)
    return text.isprintable() and text.isascii() and not re.search(r"[\s:'\"\\$`;&|<>(){}*?\[\]!#~%]", text)


class _Model(BaseModel):
    # YAML reads `.inf` and `.nan` as numbers, which no clock can wait for.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


# No clock, no wait and no shell on a node can count more.
Seconds = Annotated[float, Field(ge=0, le=30 * 86400)]
Days = Annotated[float, Field(ge=0, le=36_500)]
Count = Annotated[int, Field(ge=0, le=1 << 60)]


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
    """The way to reach nodes. `fanout` is the number of connections at once; times are wall-clock seconds.

    `become` comes before the shell on the node (`sudo -n`); every srun and sbatch gets `slurm_options`.
    """

    via: Literal["ssh", "slurm", "both"] = Field(default="ssh", description="how envmgr reaches nodes")
    # The name becomes a word of ssh's command line, where a `-` at its beginning would make it an option.
    user: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_.][A-Za-z0-9_.@-]*$",
        description="user to log in as, whom only nodes know; else your own",
    )
    become: str | None = Field(default=None, description="command before the shell on nodes, which only they know")
    fanout: int = Field(default=64, ge=1, description="connections at once")
    connect_timeout: Seconds = Field(default=10, gt=0, description="seconds until a silent node is given up")
    queue_timeout: Seconds = Field(default=30, gt=0, description="seconds that a job or step may wait for a busy node")
    node_timeout: Seconds = Field(default=60, gt=0, description="seconds that one node may take in all")
    deadline: Seconds = Field(default=600, gt=0, description="seconds that a command may take over all nodes")
    persist: Seconds = Field(default=60, description="seconds that an ssh connection is kept for the next command")
    slurm_options: tuple[str, ...] = Field(default=(), description="given to every srun and sbatch of envmgr")
    inventory: Path | None = Field(default=None, description="Ansible inventory, for groups by `ansible`")

    @field_validator("become")
    @classmethod
    def _words(cls, value: str | None) -> str | None:
        # The shell of the node reads it, so that no character of a shell may stand in it.
        if value is not None and (not value.strip() or not re.fullmatch(r"[\w ./=:@-]+", value)):
            raise ValueError("must be a plain command, such as `sudo -n`")
        return value

    @field_validator("slurm_options")
    @classmethod
    def _options(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        wrong = (value for value in values if not re.fullmatch(r"--[a-z][a-z-]*(=\S+)?", value))
        refuse(f"`{value}` is not an option such as --partition=gpu" for value in wrong)
        return values


class Mount(_Model):
    """The mount of the prefix that nodes should have. `source` is as in mountinfo (`fs1:/export`); `writable` is a node
    set.

    `locks` is `local` if the site knows that file locks stay on each client.
    """

    source: str | None = None
    writable: str | None = None
    locks: Literal["local"] | None = Field(
        default=None, description="`local` if it is known that each client keeps file locks to itself"
    )
    attribute_cache: Seconds | None = Field(
        default=None, description="seconds after which every node sees a change; else by the mount's options"
    )


class SlurmSettings(_Model):
    """The settings of jobs. `heal_export` says whether TaskProlog unsets SLURM_EXPORT_ENV; None if the site has not
    decided.

    Without that variable, `srun` in a job that was submitted with --export=NONE passes on what modules set there.
    """

    heal_export: bool | None = None


class Audit(_Model):
    """The settings of `envmgr audit`. `user` is the ordinary user whose shells are looked at.

    `shells` are looked at on every node that has them, even if no account that the node lists uses them (SSSD lists no
    accounts). `gpu_jobs`: a node that hides its GPUs gets a job that asks for one.
    """

    user: str | None = Field(default=None, pattern=r"^[a-z_][a-z0-9_.-]*$")
    shells: tuple[Literal["zsh"], ...] = Field(default=(), description="looked at on every node that has them")
    ldd: Literal["sample", "full", "none"] = Field(
        default="sample", description="the programs whose shared libraries are looked up on nodes"
    )
    gpu_jobs: bool = Field(default=True, description="whether a node that hides its GPUs gets a job that asks for one")
    max_skew: Seconds = Field(default=5, gt=0, description="seconds that a node's clock may be off")
    min_inodes: Count = Field(default=100_000, description="inodes that the prefix's file system must have free")


def _mirrors(values: tuple[str, ...]) -> tuple[str, ...]:
    wrong = [v for v in values if "://" in v or not v.strip("/")]
    wrong = [v for v in wrong if not re.fullmatch(r"(https?|file)://[^\s]+", v)]
    refuse(f"`{value}` is neither an http(s):// or file:// URL nor a folder" for value in wrong)
    return tuple(v.rstrip("/") for v in values)


# URLs, or folders as written, in the order in which they are tried.
Mirrors = Annotated[tuple[str, ...], AfterValidator(_mirrors)]


class Sources(_Model):
    """The places that source files come from: mirrors (URL or folder) in order, then upstream's own URLs.

    A mirror keeps files in their software's folder (`z/zlib/zlib-1.3.1.tar.gz`), as `<sha256>/<file>`, or side by side.
    """

    mirrors: Mirrors = ()
    upstream: bool = Field(default=True, description="whether upstream's own URLs are tried")


class Policies(_Model):
    """The site's decisions. Sizes are bytes, times seconds unless named otherwise."""

    keep_generations: int = Field(default=10, ge=1, description="generations kept whatever their age")
    keep_days: Days = Field(default=60, description="days a generation is kept: longer than the longest job or session")
    licences: tuple[str, ...] = Field(default=(), description="licences that the site accepts")
    umask: str = Field(default="022", pattern=r"^0?[0-7]{3}$")
    group: str | None = None
    user_site: bool = Field(default=False, description="let Python see the user's ~/.local")
    driver_gate: Literal["warn", "refuse"] = Field(
        default="warn", description="what a module does where its GPU programs would fail"
    )
    gate: Literal["off", "warn", "refuse"] = Field(
        default="off", description="whether a build asks the last audit's facts if the nodes can run the entry"
    )
    unsigned: Literal["note", "refuse"] = Field(
        default="note", description="what a node does with a flip that it found not to be signed, or could not check"
    )
    allow_network: bool = Field(
        default=False, description="let builds from source have a network where they cannot be kept off it"
    )
    stage_before_publish: bool = Field(
        default=False, description="whether `promote` has nodes stage what `staging.entries` names, before the flip"
    )
    min_free: Count = Field(default=1 << 30, description="bytes that a build must leave free")
    stall_timeout: Seconds = Field(default=60, gt=0, description="seconds without a byte before a download is given up")
    download_retries: int = Field(default=2, ge=0, le=100, description="further tries after a fault that may pass")

    @property
    def mask(self) -> int:
        return int(self.umask, 8)


class Signing(_Model):
    """The key that signs flips, and the list of allowed signers, in ssh-keygen(1)'s format.

    A signature counts as old after `expires_days` days, if that is set.
    """

    key: Path | None = None
    allowed_signers: Path
    expires_days: Days | None = Field(default=None, gt=0, description="days after which a signature is old")

    @property
    def key_files(self) -> tuple[Path, ...]:
        """The files that may hold the private key: given a public key or a certificate, ssh-keygen signs with the
        private key beside it.
        """
        if self.key is None:
            return ()
        names = (self.key.name, *(self.key.name.removesuffix(end) for end in ("-cert.pub", ".pub")))
        return tuple(dict.fromkeys(self.key.with_name(name) for name in names if name))


class LmodSettings(_Model):
    """The place of Lmod if it is not a usual one: the folder with `lmod` and `update_lmod_system_cache_files`."""

    dir: Path | None = None


class UserSettings(_Model):
    """Users' own environments (`envmgr user`)."""

    holds: Path | None = Field(
        default=None, description="folder in which users say what their environments stand on; `<prefix>/var/users`"
    )


class _ChosenEntries(_Model):
    entries: tuple[str, ...] = ()

    def chosen(self, names: Iterable[str]) -> list[str]:
        """Return the names that `entries` name, sorted."""
        return [name for name in sorted(names) if any(fnmatchcase(name, each) for each in self.entries)]


class ImageSettings(_ChosenEntries):
    """Images of installs (`envmgr stage --image`): made for `entries` after their tests."""

    entries: tuple[str, ...] = Field(default=(), description="entries that get images: names, `*` stands for a part")
    compression: Literal["zstd", "lz4"] = Field(default="zstd", description="zstd is smaller, lz4 is read faster")


class Staging(_ChosenEntries):
    """Images on nodes, by `envmgr stage --sync`. `quota` is bytes of images on each node's disk, `bandwidth` bytes per
    second that leave the file server.
    """

    entries: tuple[str, ...] = Field(default=(), description="entries to stage: names, `*` stands for a part")
    nodes: str | None = Field(default=None, description="the node set that gets them")
    folder: str = Field(
        default="/var/lib/envmgr/images",
        pattern=r"^(/[A-Za-z0-9._+-]+)+$",
        description="folder on each node's own disk",
    )
    quota: Count = Field(default=50 << 30, description="bytes of images on each node's disk")
    bandwidth: Count | None = Field(default=None, gt=0, description="bytes per second for all copies from the share")
    before_publish: Seconds = Field(default=900, gt=0, description="seconds that a promote waits for nodes that stage")


_CATALOGS = "must be a list of folders, or have only `folders` and `require_commit`"


class SiteFile(_Model):
    """`site.yaml` as written. Relative paths are relative to the file. Each backend checks its part of `backends`."""

    schema_version: Literal[1] = Field(default=1, alias="schema", description="version of this format")
    name: str = Field(default="site", description="the cluster's name, which manifests contain")
    prefix: Path
    catalogs: tuple[Path, ...] = ()
    require_commit: bool = Field(
        default=False, description="whether `apply` refuses catalogs with changes that are in no commit"
    )
    build_dir: Path | None = Field(
        default=None, description="where software is compiled; else the system's folder for temporary files"
    )
    build_user: str | None = None
    login_nodes: str | None = None
    groups: dict[str, NodeGroup] = {}
    transport: Transport = Transport()
    mount: Mount = Mount()
    audit: Audit = Audit()
    slurm: SlurmSettings = SlurmSettings()
    backends: dict[str, dict[str, Any]] = {}
    sources: Sources = Sources()
    cpu_level: CpuLevel = "x86-64-v2"
    lmod: LmodSettings = LmodSettings()
    signing: Signing | None = None
    policies: Policies = Policies()
    users: UserSettings = UserSettings()
    images: ImageSettings = ImageSettings()
    staging: Staging = Staging()
    usage: bool = Field(default=False, description="whether a module says to the node's syslog that it is loaded")

    @model_validator(mode="before")
    @classmethod
    def _catalogs(cls, data: Any) -> Any:
        """Take `catalogs: {folders: […], require_commit: true}`, too."""
        found = data.get("catalogs") if isinstance(data, dict) else None
        if not isinstance(found, dict) or not found.keys() <= {"folders", "require_commit"}:
            return data
        flat = {**data, "catalogs": found.get("folders", ())}
        return {**flat, "require_commit": found["require_commit"]} if "require_commit" in found else flat

    @field_validator("catalogs", mode="before")
    @classmethod
    def _folders(cls, value: Any) -> Any:
        if isinstance(value, dict):
            raise ValueError(_CATALOGS)  # noqa: TRY004 - pydantic reads no other
        return value

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
