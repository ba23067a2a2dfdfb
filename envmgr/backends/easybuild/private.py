"""A private EasyBuild: one version in an environment of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from envmgr.backends.easybuild.contents import Places, contents_sum
from envmgr.backends.easybuild.folders import tools_folder
from envmgr.backends.easybuild.making import Files, make_from_files, make_from_index
from envmgr.backends.easybuild.tool import EasyBuild
from envmgr.backends.easybuild.trust import only_ours
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.modules.lmod import find_lmod
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.system.files import atomic_write, explain_os_error, pretty_json, remove_tree
from envmgr.system.locks import file_lock
from envmgr.system.run import Runner
from envmgr.system.usernames import own_home

_MARKER = "envmgr.json"  # written last: an environment without it is not complete


def find_private(version: str, site: Site, environ: Mapping[str, str], runner: Runner) -> EasyBuild | None:
    """The prefix's private environment of that version, or the caller's own; None when neither is complete.

    The prefix's is for ordinary users. Root does not use it: it belongs to the build user, and root would run that user's code.
    """
    users = user_home(version, environ)
    homes = (users,) if os.geteuid() == 0 else (site_home(version, site), users)
    found = next((home for home in homes if is_complete(home)), None)
    return None if found is None else _private(found, version, _lmod(site, environ, runner))


def ensure_private(
    version: str,
    home: Path,
    site: Site,
    environ: Mapping[str, str],
    runner: Runner,
    reporter: Reporter,
    *,
    contents: str = "",
    files: Files | None = None,
    label: str = "",
) -> EasyBuild:
    """The environment in `home`, made if it is not there, or anew if its Python is gone. If two processes need it at once, one makes it.

    `contents` is the sha256 that it must have, `files` what it is made of, and `label` the entry whose lock says that; without,
    it is made of what the package index has.

    Raises:
        EnvmgrError: `easybuild-unavailable` with what uv said, `easybuild-differs`, `lmod-missing`, `disk-full`; as `files` fail.
    """
    lmod = _lmod(site, environ, runner)
    marker = home / _MARKER
    if is_complete(home):
        return _require_contents(_private(home, version, lmod), contents)

    def waiting(holder: str) -> None:
        reporter.say(f"EasyBuild {version}: waiting for {holder}, which installs it")

    with (
        explain_os_error(home),
        file_lock(home.with_name(f".{home.name}.lock"), on_wait=waiting, check=runner.raise_if_cancelled),
    ):
        if not is_complete(home):
            remove_tree(home)
            paths = files.bring() if files else {}
            try:
                with reporter.stage(f"EasyBuild {version} install"):
                    if files:
                        make_from_files(version, home, files.locked, paths, runner, reporter)
                    else:
                        make_from_index(version, home, environ, runner, label=label)
                made = _require_contents(_private(home, version, lmod), contents, locked=files is not None)
                rows = {"contents": contents_sum(made.places), "easybuild": version, "python": sys.version.split()[0]}
                atomic_write(marker, pretty_json(rows))
            except BaseException:
                remove_tree(home)
                raise
    return _require_contents(_private(home, version, lmod), contents)


def _private(home: Path, version: str, lmod: Path) -> EasyBuild:
    packages = next(iter(sorted(home.glob("lib/python3*/site-packages"))), home / "lib")
    return EasyBuild(home / "bin" / "python", Places(packages, home), version, lmod)


def _require_contents(tool: EasyBuild, wanted: str, *, locked: bool = False) -> EasyBuild:
    """The sum taken when the environment was made is in its marker; a marker of an earlier envmgr has none, so it is taken now.

    `locked`: it was made just now, of the lock's own files.
    """
    home = tool.places.home
    try:
        found = str(json.loads((home / _MARKER).read_text())["contents"])
    except (OSError, ValueError, KeyError, TypeError):
        found = contents_sum(tool.places) if wanted else ""
    if wanted and found != wanted:
        hint = (
            "the package index has another one than when the entry was locked: find out why, before you lock it again; "
            "if that folder was changed, remove it: it is made anew"
        )
        if locked:
            hint = "it was made of the files that the lock names: the lock was edited, or made from another EasyBuild; lock again"
        raise EnvmgrError(
            "easybuild-differs",
            f"EasyBuild {tool.version} is not what the lock says",
            context=[str(home), f"sha256 {wanted} was locked", f"sha256 {found} was installed"],
            hint=hint,
        )
    return tool


def site_home(version: str, site: Site) -> Path:
    """The place for builds: under the prefix, so that build jobs on nodes find it too."""
    return tools_folder(Prefix(site.prefix)) / version


def user_home(version: str, environ: Mapping[str, str]) -> Path:
    """The place for a user that only locks: below the user's cache. Source: XDG Base Directory Specification.

    `sudo` may leave root with another user's home: then it is not used.
    """
    cache = environ.get("XDG_CACHE_HOME", "")
    base = Path(cache) if cache.startswith("/") else Path(environ.get("HOME") or "/tmp") / ".cache"  # noqa: S108 - no home
    if os.geteuid() == 0 and not only_ours(base / "envmgr" / "easybuild" / version):
        base = Path(own_home(None)) / ".cache"
    return base / "envmgr" / "easybuild" / version


def is_complete(home: Path) -> bool:
    """Whether it is whole. Its Python is a link to the system's, which an upgrade may take away."""
    python = home / "bin" / "python"
    return (home / _MARKER).is_file() and python.is_file() and os.access(python, os.X_OK)


def _lmod(site: Site, environ: Mapping[str, str], runner: Runner) -> Path:
    return find_lmod(site.lmod.dir, environ, runner=runner).commands / "lmod"
