"""EasyBuild itself: just the version that a lock names, in a private environment that uv makes from PyPI."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envmgr.backends.easybuild.folders import tools_folder
from envmgr.backends.easybuild.trust import only_ours
from envmgr.catalog.site import Site
from envmgr.errors import CommandError, EnvmgrError
from envmgr.modules.lmod import find_lmod
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.system.files import atomic_write, explain_os_error, file_lock, pretty_json, remove_tree
from envmgr.system.run import Runner, clean_env

_MARKER = "envmgr.json"  # written last: an environment without it is not complete
_INSIDE = Path(__file__).resolve().parent / "inside"
_LIMIT = 1800.0  # seconds that making the environment may take


@dataclass(frozen=True, slots=True)
class EasyBuild:
    """One private environment: `home` holds bin/python and bin/eb; `lmod_command` is what EasyBuild's `$LMOD_CMD` needs."""

    home: Path
    version: str
    lmod_command: Path

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    @property
    def easyconfigs(self) -> Path:
        """The easyconfigs that come with it."""
        return self.home / "easybuild" / "easyconfigs"

    @property
    def inside(self) -> Path:
        """Our files that run in it."""
        return _INSIDE

    def require(self, framework: str, easyblocks: str) -> None:
        """Raises EnvmgrError `easybuild-differs` unless these are the versions that are installed in it."""
        for part, wanted in (("framework", framework), ("easyblocks", easyblocks)):
            names = [p.name for p in self.home.glob(f"lib/python3*/site-packages/easybuild_{part}-*.dist-info")]
            if names != [f"easybuild_{part}-{wanted}.dist-info"]:
                raise EnvmgrError(
                    "easybuild-differs", f"the lock wants {part} {wanted} of EasyBuild, its environment has another",
                    context=[str(self.home), *(names or [f"no easybuild_{part} is installed in it"])],
                    hint="lock the entry again; or remove that folder, if somebody changed it: it is made anew",
                )  # fmt: skip

    def environment(self, **extra: str) -> dict[str, str]:
        """A scrubbed one: no loaded modules, no compiler flags, no configuration of anybody's."""
        return clean_env(
            EB_SCRIPT_PATH=str(self.home / "bin" / "eb"), LMOD_CMD=str(self.lmod_command), PYTHONNOUSERSITE="1",
            PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1", XDG_CONFIG_DIRS="/nonexistent", **extra,
        )  # fmt: skip


def find_easybuild(version: str, site: Site, environ: Mapping[str, str], runner: Runner) -> EasyBuild | None:
    """The prefix's environment of that version, or the caller's own; None when neither is complete.

    The prefix's is for ordinary users: it belongs to the build user, who could make root run anything.
    """
    own = own_home(version, environ)
    homes = (own,) if os.geteuid() == 0 else (site_home(version, site), own)
    found = next((home for home in homes if _is_complete(home)), None)
    return None if found is None else EasyBuild(found, version, _lmod(site, environ, runner))


def ensure_easybuild(
    version: str, home: Path, site: Site, environ: Mapping[str, str], runner: Runner, reporter: Reporter
) -> EasyBuild:
    """The environment in `home`, made if it is not there, or anew if its Python is gone; two who need it at once make it once.

    Raises:
        EnvmgrError: `easybuild-unavailable` with what uv said, `lmod-missing`, `disk-full`.
    """
    lmod = _lmod(site, environ, runner)
    marker = home / _MARKER
    if _is_complete(home):
        return EasyBuild(home, version, lmod)

    def waiting(holder: str) -> None:
        reporter.say(f"EasyBuild {version}: waiting for {holder}, which installs it")

    with explain_os_error(home), file_lock(
        home.with_name(f".{home.name}.lock"), on_wait=waiting, check=runner.raise_if_cancelled
    ):  # fmt: skip
        if not _is_complete(home):
            remove_tree(home)
            try:
                with reporter.stage(f"EasyBuild {version} install"):
                    _make(version, home, environ, runner)
                atomic_write(marker, pretty_json({"easybuild": version, "python": sys.version.split()[0]}))
            except BaseException:
                remove_tree(home)
                raise
    return EasyBuild(home, version, lmod)


def site_home(version: str, site: Site) -> Path:
    """Where builds have it: under the prefix, so that build jobs on nodes find it too."""
    return tools_folder(Prefix(site.prefix)) / version


def own_home(version: str, environ: Mapping[str, str]) -> Path:
    """Where whoever locks without building has it. Source: XDG Base Directory Specification.

    `sudo` may leave root with somebody else's home: then it is not used.
    """
    cache = environ.get("XDG_CACHE_HOME", "")
    base = Path(cache) if cache.startswith("/") else Path(environ.get("HOME") or "/tmp") / ".cache"  # noqa: S108 - no home
    if os.geteuid() == 0 and not only_ours(base / "envmgr" / "easybuild" / version):
        base = Path(pwd.getpwuid(0).pw_dir) / ".cache"
    return base / "envmgr" / "easybuild" / version


def _is_complete(home: Path) -> bool:
    """Its Python is a link to the system's, which an upgrade may take away."""
    python = home / "bin" / "python"
    return (home / _MARKER).is_file() and python.is_file() and os.access(python, os.X_OK)


def _make(version: str, home: Path, environ: Mapping[str, str], runner: Runner) -> None:
    from uv import find_uv_bin

    uv, env = find_uv_bin(), _uv_environment(environ)
    try:
        runner.run([uv, "venv", "--quiet", "--python", sys.executable, home], env=env, timeout=_LIMIT)
        runner.run(
            [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", home / "bin" / "python", f"easybuild=={version}"],
            env=env, timeout=_LIMIT,
        )  # fmt: skip
    except CommandError as error:
        raise EnvmgrError(
            "easybuild-unavailable",
            f"EasyBuild {version} could not be installed",
            context=error.context,
            hint="it comes from the Python package index: is that reachable, or UV_DEFAULT_INDEX (or UV_FIND_LINKS) set to a mirror?",
        ) from error


def _uv_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Proxies, certificates, and where packages come from, pass; nothing else of the caller's shell does."""
    passed = {
        key: value
        for key, value in environ.items()
        if key.startswith("UV_") or key.upper().endswith("_PROXY") or key in ("SSL_CERT_FILE", "SSL_CERT_DIR")
    }
    for pip, uv in (
        ("PIP_INDEX_URL", "UV_DEFAULT_INDEX"),
        ("PIP_EXTRA_INDEX_URL", "UV_INDEX"),
        ("PIP_CERT", "SSL_CERT_FILE"),
    ):
        if environ.get(pip):
            passed.setdefault(uv, environ[pip])
    env = clean_env(UV_NATIVE_TLS="1", UV_NO_PROGRESS="1", **passed)
    if not os.access(env.get("HOME", "/nonexistent"), os.W_OK):
        env["UV_NO_CACHE"] = "1"  # a build user without a home
    return env


def _lmod(site: Site, environ: Mapping[str, str], runner: Runner) -> Path:
    return find_lmod(site.lmod.dir, environ, runner=runner).commands / "lmod"
