"""The site: where things lie on this cluster, and the systems that it builds for. One `site.yaml`, or the embedded
single-node site.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envmgr.catalog.site_file import CpuLevel, SiteFile
from envmgr.errors import InputError
from envmgr.system.files import shipped
from envmgr.system.invisible import TABS, require_visible
from envmgr.system.models import FrozenModel
from envmgr.system.modes import ask_about_way, closing
from envmgr.system.safe_paths import way_to
from envmgr.system.untrusted_files import SITE, read_in
from envmgr.system.usernames import own_home, user_name
from envmgr.system.yamlfile import parse_yaml, reason_of, validate

# The text that binary packages carry where their prefix goes is 255 characters long: no longer path fits.
MAX_PREFIX = 255
FILE_NAME = "site.yaml"
SYSTEM_FILE = Path("/etc/envmgr/site.yaml")


class Site(SiteFile):
    """The site as the code uses it: absolute paths, the shipped catalog last, `source` None when embedded.

    `backends` is raw, a mapping for each backend that has settings.
    """

    source: Path | None

    @property
    def shipped_catalog(self) -> Path:
        return self.catalogs[-1]

    @property
    def stages(self) -> bool:
        """Return whether nodes of the site get images on their own disks."""
        return bool(self.staging.entries or self.staging.nodes)

    @property
    def read_by_verbs(self) -> tuple[Path, ...]:
        """The paths that the build user must read: the site's file, and its catalogs that exist."""
        return (*([self.source] if self.source else []), *(c for c in self.catalogs if not _is_missing(c)))

    def absolute(self, path: Path) -> Path:
        """Return a path of the site file as an absolute one."""
        return _under(self.source.parent if self.source else Path("/"), path)

    def absolute_mirrors(self, mirrors: Sequence[str]) -> tuple[str, ...]:
        """Return mirrors as URLs."""
        return _urls(mirrors, self.source.parent if self.source else Path("/"))

    def with_settings(self, backend: str, **settings: Any) -> Site:
        """Return the same site with these settings of one backend changed."""
        changed = {**self.backends.get(backend, {}), **settings}
        return self.model_copy(update={"backends": {**self.backends, backend: changed}})


def _is_missing(path: Path) -> bool:
    """Return whether the path is missing. A path below a closed folder does not count as missing."""
    try:
        path.stat()
    except OSError as error:
        return not isinstance(error, PermissionError)
    return False


def find_site(explicit: Path | None, environ: Mapping[str, str], cwd: Path) -> Path | None:
    """Return the site file: `--site`, `$ENVMGR_SITE`, upwards from `cwd`, `/etc`; None for the embedded site.

    Raises:
        InputError: `site-missing` for a named file that does not exist, `site-unreadable` if the search is not
            possible.
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
        with suppress(PermissionError):  # a folder above that this user cannot read has no site for them
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
            "site-unreadable",
            f"cannot look for {path}",
            context=f"{error.strerror}; named by {by}",
            hint=f"ask who set up the site: its users must enter {path.parent}, and read the file",
        ) from None


def load_site(path: Path | None, environ: Mapping[str, str]) -> Site:
    """Read and check a site file, or make the embedded site.

    Raises:
        InputError: `site-untrusted` (another user owns the file, or could have put it there, and it decides where root
            writes), `text-invisible`, `site-invalid`.
    """
    if path is None:
        return _resolve(_embedded(embedded_prefix(environ)), None)
    text = _read_own(path)
    require_visible(text, path, also=TABS)
    file = validate(parse_yaml(text, path), SiteFile, text=text, path=path, reference="site-invalid")
    return _resolve(file, path)


def embedded_prefix(environ: Mapping[str, str]) -> Path:
    """Return `/opt/envmgr` for root, else a folder under the user's data folder. Source: XDG Base Directory
    Specification.
    """
    if os.geteuid() == 0:
        return Path("/opt/envmgr")
    data = environ.get("XDG_DATA_HOME", "")
    home = own_home(environ.get("HOME"))
    # The specification says that a relative path is ignored.
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
    changed: dict[str, Any] = {"catalogs": (*(_under(base, c) for c in file.catalogs), shipped("recipes"))}
    if file.build_dir is not None:
        changed["build_dir"] = _under(base, file.build_dir)
    if file.transport.inventory is not None:
        inventory = _under(base, file.transport.inventory)
        changed["transport"] = file.transport.model_copy(update={"inventory": inventory})
    if (signing := file.signing) is not None:
        key = None if signing.key is None else _under(base, signing.key)
        signers = _under(base, signing.allowed_signers)
        changed["signing"] = signing.model_copy(update={"key": key, "allowed_signers": signers})
    changed["sources"] = file.sources.model_copy(update={"mirrors": _urls(file.sources.mirrors, base)})
    return Site.model_construct(**{**dict(file), "source": path, **changed})


def _urls(mirrors: Sequence[str], base: Path) -> tuple[str, ...]:
    return tuple(m if "://" in m else _under(base, Path(m)).as_uri() for m in mirrors)


def _under(base: Path, path: Path) -> Path:
    """Return `path` as an absolute one, for a file that lies in `base`."""
    try:
        return (base / path.expanduser()).resolve()
    except RuntimeError:
        raise InputError("site-invalid", f"`{path}` names the home of a user that does not exist here") from None


def _read_own(path: Path) -> str:
    """Return the file's text. The file is opened once, and its owner and the folders above it are checked on what was
    opened.
    """
    try:
        with way_to(path) as way:

            def check(status: os.stat_result) -> None:
                _refuse_foreign(path, status)
                if way.fault:
                    raise InputError(
                        "site-untrusted",
                        f"{path} could be another user's: {way.fault}",
                        context=_DECIDES,
                        hint="keep it in a folder that only you or root can change, for example /etc/envmgr, "
                        "or name another one with --site",
                    )
                # In a folder such as /tmp, another user may have given one of our files this name by a hard link.
                if status.st_nlink > 1 and os.fstat(way.folder).st_mode & 0o002:
                    raise InputError(
                        "site-untrusted",
                        f"{path} has another name, and lies where everyone can put one",
                        context=_DECIDES,
                        hint="keep it in a folder that only you or root can change, for example /etc/envmgr",
                    )

            return read_in(way.folder, path.parent / way.name, SITE, check).decode()
    except OSError as error:
        raise InputError("site-missing", f"cannot read {path}", context=str(error)) from None
    except UnicodeDecodeError as error:
        raise InputError("yaml-syntax", f"{path}: not UTF-8 (byte {error.start})") from None


_DECIDES = "a site file decides what is written where and what runs"


def _shut(path: Path) -> str:
    return closing("o-w", str(path)) if path.resolve() == path.absolute() else ask_about_way(str(path))


def _refuse_foreign(path: Path, status: os.stat_result) -> None:
    if status.st_uid not in (os.geteuid(), 0):
        raise InputError(
            "site-untrusted",
            f"{path} belongs to {user_name(status.st_uid)}, neither to you nor to root",
            context=_DECIDES,
            hint="check it, then `chown` it, or name another one with --site",
        )
    if status.st_mode & 0o002:
        raise InputError("site-untrusted", f"{path} can be written by everyone", hint=_shut(path))


class Target(FrozenModel):
    """Architecture, the site's CPU level, OS id and major version, glibc."""

    arch: str
    cpu_level: CpuLevel
    os_id: str
    os_major: str
    glibc: str


def read_target(cpu_level: CpuLevel, os_release: Path = Path("/etc/os-release")) -> Target:
    """Return the target of this site, by this host's OS. Source: os-release(5), `confstr(_CS_GNU_LIBC_VERSION)`."""
    fields: dict[str, str] = {}
    if os_release.exists():
        for line in os_release.read_text(encoding="utf-8", errors="replace").split("\n"):
            key, _, value = line.partition("=")
            fields[key.strip()] = value.strip().strip("\"'")
    return Target(
        arch=platform.machine(),
        cpu_level=cpu_level,
        os_id=fields.get("ID", "linux"),
        os_major=fields.get("VERSION_ID", "0").partition(".")[0],
        glibc=platform.libc_ver()[1] or "unknown",
    )
