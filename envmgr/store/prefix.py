"""The prefix as paths, and the store: what is installed, under which digest."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envmgr.catalog.names import Entry
from envmgr.catalog.site import MAX_PREFIX, Target
from envmgr.errors import EnvmgrError, InputError
from envmgr.system.files import canonical_json, sha256_bytes
from envmgr.system.untrusted_files import MANIFEST, open_untrusted

SHORT = 8  # hex digits of a digest that name an install


@dataclass(frozen=True, slots=True)
class Prefix:
    """The places of things under a site's prefix. It makes nothing."""

    root: Path

    @property
    def store(self) -> Path:
        return self.root / "store"

    @property
    def images(self) -> Path:
        """Squashfs images of installs. It does not exist before the first image."""
        return self.root / "images"

    @property
    def generations(self) -> Path:
        return self.root / "generations"

    @property
    def place(self) -> Path:
        """The path that the prefix was made for: see `store.place`."""
        return self.root / "prefix.json"

    @property
    def current(self) -> Path:
        return self.root / "current"

    @property
    def cache(self) -> Path:
        """Downloads: a folder for each kind, `<kind>/<sha256>/<file name>`."""
        return self.root / "cache"

    @property
    def source_cache(self) -> Path:
        return self.cache / "sources"

    @property
    def logs(self) -> Path:
        return self.root / "var" / "log"

    @property
    def locks(self) -> Path:
        return self.root / "var" / "lock"

    @property
    def publish_lock(self) -> Path:
        return self.locks / "publish.lock"

    @property
    def history(self) -> Path:
        return self.root / "var" / "history.jsonl"

    @property
    def flips(self) -> Path:
        """A file for every flip, with its signature beside it where the site signs. Not there before the first."""
        return self.root / "flips"

    @property
    def candidates(self) -> Path:
        """A marker for every generation that is a candidate. Not there before the first."""
        return self.root / "candidates"

    @property
    def candidate(self) -> Path:
        """The link to the newest candidate, if there is one."""
        return self.root / "candidate"

    def generation(self, number: int) -> Path:
        return self.generations / f"{number:04d}"

    @property
    def jobs(self) -> Path:
        """The job table: one file for every build that is under way."""
        return self.root / "var" / "jobs"

    @property
    def slurm_jobs(self) -> Path:
        """The folder in which submitters and Slurm jobs exchange files: one folder per job. It does not exist before
        the first job.
        """
        return self.jobs / "slurm"

    @property
    def holds(self) -> Path:
        """One file for every run that stands on installs."""
        return self.jobs / "holds"

    @property
    def user_holds(self) -> Path:
        """One small file for every user whose environments stand on installs; all users may make theirs."""
        return self.root / "var" / "users"

    @property
    def hold_lock(self) -> Path:
        return self.locks / "hold.lock"

    def install_at(self, path: str) -> Install:
        """Return the install that a record names by its path relative to the prefix,
        `store/<name>/<version>-<digest8>`.

        Its digest is the 8 digits of its name. Raise ValueError for another path.
        """
        _, name, label = path.split("/")
        return Install(self, Entry(name, label[: -SHORT - 1]), label[-SHORT:])

    def named(self, path: str) -> str:
        """Return the path of an install as records of this prefix have it."""
        return path.removeprefix(f"{self.root}/")


@dataclass(frozen=True, slots=True)
class Install:
    """One install of the store: its paths, whether or not it is there. `digest` is the full 64 hex digits.

    `entry` is its name and version in the store: those of a catalog entry, or of a part that its backend builds.
    """

    prefix: Prefix
    entry: Entry
    digest: str

    @property
    def label(self) -> str:
        return f"{self.entry.version}-{self.digest[:SHORT]}"

    @property
    def path(self) -> Path:
        return self.prefix.store / self.entry.name / self.label

    @property
    def relative(self) -> str:
        """`store/<name>/<version>-<digest8>`, as records have it."""
        return str(self.path.relative_to(self.prefix.root))

    @property
    def staging(self) -> Path:
        """A sibling: the rename needs no write bit on the tree itself, and never crosses file systems."""
        return self.path.with_name(f".staging-{self.label}")

    @property
    def again(self) -> Path:
        """A sibling, in which it is made again while another tree lies at its path."""
        return self.path.with_name(f".again-{self.label}")

    @property
    def manifest(self) -> Path:
        return self.path.with_name(f"{self.label}.manifest.json")

    @property
    def image(self) -> Path:
        """Its image, which exists only once the record beside it is written: see `store.image`."""
        return self.prefix.images / self.entry.name / f"{self.label}.sqfs"

    @property
    def lock(self) -> Path:
        return self.prefix.locks / f"store-{self.entry.name}-{self.label}.lock"

    def is_covered(self) -> bool:
        """Return whether something is mounted over the install here, as an image is on a node where it is staged."""
        return self.path.is_mount()

    def exists(self) -> bool:
        """Return whether the install exists, which it does only once its manifest is written."""
        return self.manifest.is_file() and self.path.is_dir()

    def has_python(self) -> bool:
        """Return whether it brings a `python` (or only a `python3`) that loading it puts first."""
        return any((self.path / "bin" / name).is_file() for name in ("python", "python3"))

    def check_length(self) -> None:
        """Raise EnvmgrError `prefix-too-long`: packages have room for 255 characters where their prefix goes."""
        if (length := len(str(self.path))) > MAX_PREFIX:
            raise EnvmgrError(
                "prefix-too-long",
                f"the install path of {self.entry} has {length} characters; packages have room for {MAX_PREFIX}",
                context=str(self.path),
                hint="choose a shorter prefix in site.yaml",
            )

    def check_digest(self) -> None:
        """Raise EnvmgrError `digest-collision` if another digest with the same 8 first digits is installed there."""
        if self.manifest.is_file() and (found := recorded_digest(self.manifest)) != self.digest:
            raise EnvmgrError(
                "digest-collision",
                f"two digests of {self.entry} share their first {SHORT} digits",
                context=[f"wanted    {self.digest}", f"installed {found}"],
                hint="change the recipe in any way that changes its lock, and lock again",
            )


@dataclass(frozen=True, slots=True)
class Item:
    """One install that an entry needs. `needs` are those it runs with, `build_needs` those that only its build
    needs.
    """

    install: Install
    needs: tuple[Install, ...] = ()
    build_needs: tuple[Install, ...] = ()


def install_digest(entry: Entry, backend: str, identity: object, target: Target, root: Path, *, layout: int) -> str:
    """Return the sha256 over the versioned canonical form of everything that decides an install's bytes (64 hex
    digits).

    Entry and prefix are part of it: the final path is written into the files. Versions of envmgr and of its tools are
    not: `layout` is the backend's own number, which counts up when the backend makes something else of the same
    `identity` (JSON).
    """
    payload = {
        "schema": 1,
        "layout": layout,
        "entry": str(entry),
        "backend": backend,
        "identity": identity,
        "target": target.model_dump(),
        "prefix": str(root),
    }
    return sha256_bytes(canonical_json(payload))


def recorded_digest(manifest: Path) -> str:
    """Return the digest of a manifest, which is written first, without reading its (long) list of paths.

    Raises EnvmgrError `manifest-damaged`.
    """
    try:
        with open_untrusted(manifest, MANIFEST, tree=None) as descriptor:
            head = os.read(descriptor, 512)
    except InputError as error:
        raise EnvmgrError("manifest-damaged", error.message, hint="remove it, and build again") from None
    match = re.match(rb'\{\s*"digest":\s*"([0-9a-f]{64})"', head)
    if not match:
        raise EnvmgrError(
            "manifest-damaged", f"{manifest} does not begin with a digest", hint="remove it, and build again"
        )
    return match[1].decode()


def installs(prefix: Prefix) -> Iterator[Install]:
    """Yield every complete install of the store. One with a damaged manifest has the 8 digits of its name, so that it
    can go.
    """
    for manifest in sorted(prefix.store.glob("*/*.manifest.json")):
        label = manifest.name.removesuffix(".manifest.json")
        try:
            digest = recorded_digest(manifest)
        except EnvmgrError:
            digest = label[-SHORT:]
        install = Install(prefix, Entry(manifest.parent.name, label[: -SHORT - 1]), digest)
        if install.exists():
            yield install
