"""Choose the EasyBuild that runs: envmgr's own if it may be used, otherwise a private one, which is made here."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from envmgr.backends.easybuild import Workbench
from envmgr.backends.easybuild.installation import EasyBuild, Places, contents_sum, only_ours, own_places, why_not_own
from envmgr.backends.easybuild.items import tools_folder
from envmgr.backends.easybuild.lock import EasyBuildFile, EasyBuildLock
from envmgr.backends.easybuild.sources import collect_easybuild
from envmgr.catalog.site import Site
from envmgr.errors import CommandError, EnvmgrError
from envmgr.modules.lmod import find_lmod
from envmgr.nodes.jobs import JobOptions, ask_a_node
from envmgr.store.prefix import Prefix
from envmgr.system.child import NETWORK, passed
from envmgr.system.files import atomic_write, explain_os_error, pretty_json, remove_tree
from envmgr.system.locks import file_lock
from envmgr.system.pip_settings import uv_settings
from envmgr.system.run import Runner, clean_env
from envmgr.system.sandbox import without_network
from envmgr.system.scratch import scratch_folder
from envmgr.system.usernames import own_home

_MARKER = "envmgr.json"  # written last: an environment without it is not complete
_LIMIT = 1800.0  # seconds that making the environment may take


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a private EasyBuild: as the lock names them, and how they come here.

    `bring` returns file name -> path, each with the lock's sha256.
    """

    locked: Sequence[EasyBuildFile]
    bring: Callable[[], Mapping[str, Path]]


def easybuild_for_build(lock: EasyBuildLock, bench: Workbench, *, nodes: JobOptions | None = None) -> EasyBuild:
    """Return the EasyBuild that the lock's builds run: envmgr's own if it may be used, otherwise the prefix's.

    The prefix's is made if it is not there. With `nodes`, the builds are Slurm jobs that ask for this: a node that is
    free is asked whether envmgr's own may be used there. If none is free, each job looks for itself.

    Raises:
        EnvmgrError: `easybuild-differs` for another EasyBuild than the lock's; see `ensure_private`,
            `collect_easybuild`.
    """
    home = site_home(lock.framework, bench.site)
    why = why_not_own(lock.framework, lock.easybuild_sha256)
    if not why and nodes is not None and not is_complete(home):
        why = _why_not_on_nodes(lock, nodes, bench)
    if why:
        tell = bench.reporter.log if is_complete(home) else bench.reporter.say
        tell(f"EasyBuild {lock.framework}: envmgr's own is not used: {why}")
        files = Files(lock.easybuild_files, partial(collect_easybuild, lock, bench)) if lock.easybuild_files else None
        tool = ensure_private(lock.framework, home, bench, contents=lock.easybuild_sha256, files=files)
    else:
        tool = _own(lock.framework, bench)
    tool.require(lock.framework, lock.easyblocks)
    return tool


def needs_private(lock: EasyBuildLock, site: Site) -> bool:
    """Return whether a build here would make a private EasyBuild."""
    return not is_complete(site_home(lock.framework, site)) and bool(
        _why_not_own(lock.framework, lock.easybuild_sha256)
    )


@cache
def _why_not_own(version: str, wanted: str) -> str:
    """Ask `why_not_own` once for all locks of a fetch: it reads ten thousand files, and no fetch changes them."""
    return why_not_own(version, wanted)


def easybuild_for_lock(version: str, home: Path, bench: Workbench) -> EasyBuild:
    """Return the EasyBuild that resolves easyconfigs: envmgr's own, one that is there, or one made in `home`."""
    if not (why := why_not_own(version, None)):
        return _own(version, bench)
    bench.reporter.log(f"EasyBuild {version}: envmgr's own is not used: {why}")
    return find_private(version, bench) or ensure_private(version, home, bench)


def _own(version: str, bench: Workbench) -> EasyBuild:
    return EasyBuild(Path(sys.executable), own_places(), version, _lmod(bench))


def _why_not_on_nodes(lock: EasyBuildLock, options: JobOptions, bench: Workbench) -> str:
    module = "envmgr.backends.easybuild.installation"
    # With `-I`, neither PYTHONPATH nor the user's own packages decide what runs.
    argv = [sys.executable, "-I", "-m", module, lock.framework, lock.easybuild_sha256]
    why = ask_a_node(argv, options, bench.site, bench.runner)
    return f"on {why}" if why else ""


def find_private(version: str, bench: Workbench) -> EasyBuild | None:
    """Return the prefix's private environment of that version, or the caller's own; None if neither is complete.

    The prefix's is for ordinary users. Root does not use it: it belongs to the build user, whose code root would run.
    """
    users = user_home(version, bench.environ)
    homes = (users,) if os.geteuid() == 0 else (site_home(version, bench.site), users)
    found = next((home for home in homes if is_complete(home)), None)
    return None if found is None else _private(found, version, _lmod(bench))


def ensure_private(
    version: str, home: Path, bench: Workbench, *, contents: str = "", files: Files | None = None
) -> EasyBuild:
    """Return the environment in `home`, which is made if it is not there, or again if its Python is gone.

    If two processes need it at once, one makes it. `contents` is the sha256 that it must have, and `files` are what it
    is made of; without, it is made of what the package index has.

    Raises:
        EnvmgrError: `easybuild-unavailable` with what uv said, `easybuild-differs`, `lmod-missing`, `disk-full`; as
            `files` fail.
    """
    runner, reporter, lmod = bench.runner, bench.reporter, _lmod(bench)

    def waiting(holder: str) -> None:
        reporter.say(f"EasyBuild {version}: waiting for {holder}, which installs it")

    if is_complete(home):
        return _require_contents(_private(home, version, lmod), _recorded_sum(home), contents)
    lock = home.with_name(f".{home.name}.lock")
    with explain_os_error(home), file_lock(lock, on_wait=waiting, check=runner.raise_if_cancelled):
        # Another process may have made it while this one waited for the lock.
        if not is_complete(home):
            # A killed run left it, or an upgrade of the system removed its Python.
            remove_tree(home)
            paths = files.bring() if files else {}
            try:
                with reporter.stage(f"EasyBuild {version} install"):
                    if files:
                        _make_from_files(version, home, files.locked, paths, bench)
                    else:
                        _make_from_index(version, home, bench)
                made = _private(home, version, lmod)
                found = contents_sum(made.places)
                _require_contents(made, found, contents, locked=files is not None)
                rows = {"contents": found, "easybuild": version, "python": sys.version.split()[0]}
                atomic_write(home / _MARKER, pretty_json(rows))
            except BaseException:
                remove_tree(home)
                raise
    return _require_contents(_private(home, version, lmod), _recorded_sum(home), contents)


def _private(home: Path, version: str, lmod: Path) -> EasyBuild:
    packages = next(iter(sorted(home.glob("lib/python3*/site-packages"))), home / "lib")
    return EasyBuild(home / "bin" / "python", Places(packages, home), version, lmod)


def _require_contents(tool: EasyBuild, found: str, wanted: str, *, locked: bool = False) -> EasyBuild:
    """Raise EnvmgrError `easybuild-differs` if another sha256 is wanted than the one that was found when it was made.

    `locked`: it was made just now, of the lock's own files.
    """
    if wanted and found != wanted:
        hint = (
            "the package index has another one than when the entry was locked: find out why, before you lock it again; "
            "if that folder was changed, remove it: envmgr makes it again"
        )
        if locked:
            hint = (
                "it was made of the files that the lock names: the lock was edited, or made from another EasyBuild; "
                "lock again"
            )
        raise EnvmgrError(
            "easybuild-differs",
            f"EasyBuild {tool.version} is not what the lock says",
            context=[str(tool.places.home), f"sha256 {wanted} was locked", f"sha256 {found} was installed"],
            hint=hint,
        )
    return tool


def _recorded_sum(home: Path) -> str:
    """Return the sum that was taken when the environment was made; empty without a marker that says it."""
    try:
        return str(json.loads((home / _MARKER).read_text(encoding="utf-8"))["contents"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def is_complete(home: Path) -> bool:
    """Return whether it is complete. Its Python is a link to the system's, which an upgrade may remove."""
    python = home / "bin" / "python"
    return bool(_recorded_sum(home)) and python.is_file() and os.access(python, os.X_OK)


def site_home(version: str, site: Site) -> Path:
    """Return the place for builds: under the prefix, so that build jobs on nodes find it too."""
    return tools_folder(Prefix(site.prefix)) / version


def user_home(version: str, environ: Mapping[str, str]) -> Path:
    """Return the place for a user who only locks: below the user's cache.

    `sudo` may leave root with another user's home, which is not used then.
    Source: XDG Base Directory Specification.
    """
    cache = environ.get("XDG_CACHE_HOME", "")
    home = Path(environ.get("HOME") or "/tmp")  # noqa: S108 - no home
    base = Path(cache) if cache.startswith("/") else home / ".cache"
    if os.geteuid() == 0 and not only_ours(base / "envmgr" / "easybuild" / version):
        base = Path(own_home(None)) / ".cache"
    return base / "envmgr" / "easybuild" / version


def _lmod(bench: Workbench) -> Path:
    return find_lmod(bench.site.lmod.dir, bench.environ, runner=bench.runner).commands / "lmod"


def _make_from_files(
    version: str, home: Path, locked: Sequence[EasyBuildFile], paths: Mapping[str, Path], bench: Workbench
) -> None:
    """Make it of these files and nothing else, without a network. uv compares each with its sha256 once more.

    Raises EnvmgrError `easybuild-unavailable`.
    """
    from uv import find_uv_bin

    shut, said = without_network(bench.runner)
    if shut is None:
        bench.reporter.log(f"EasyBuild {version}: only uv keeps its installation off the network: {'; '.join(said)}")
    with scratch_folder("easybuild") as folder:
        for file in locked:
            (folder / file.name).symlink_to(paths[file.name])
        wanted, builds = folder / "wanted.txt", folder / "builds.txt"
        wanted.write_text(_rows(file for file in locked if not file.builds), encoding="utf-8")
        builds.write_text(_rows(file for file in locked if file.builds), encoding="utf-8")
        env = clean_env(HOME=str(folder), TMPDIR=str(folder), UV_NO_PROGRESS="1")
        uv: list[str | Path] = [*(shut or ()), find_uv_bin()]
        offline = ("--quiet", "--no-config", "--offline", "--no-python-downloads", "--cache-dir", folder / "cache")
        # Hashes of requirements do not cover what builds a source: `builds` has those.
        only = ("--no-index", "--find-links", folder, "--no-deps", "--require-hashes", "--build-constraints", builds)
        into = ("--compile-bytecode", "--python", home / "bin" / "python")
        venv = [*uv, "venv", *offline, "--python", sys.executable, home]
        install = [*uv, "pip", "install", *offline, *only, *into, "--requirements", wanted]
        hint = "the lock names its files, and they are here: what uv said is about this host, or its Python"
        _run(version, [venv, install], env, bench.runner, hint=hint)


def _rows(files: Iterable[EasyBuildFile]) -> str:
    return "".join(f"{file.package}=={file.version} --hash=sha256:{file.sha256}\n" for file in files)


def _make_from_index(version: str, home: Path, bench: Workbench) -> None:
    """Make it of what the index has of that version today, for a lock that names no files.

    Raises EnvmgrError `easybuild-unavailable`.
    """
    from uv import find_uv_bin

    uv, python = find_uv_bin(), home / "bin" / "python"
    venv: list[str | Path] = [uv, "venv", "--quiet", "--python", sys.executable, home]
    install: list[str | Path] = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python]
    hint = (
        "it comes from the Python package index: is that reachable, or UV_DEFAULT_INDEX set to a mirror, or "
        "UV_FIND_LINKS to a folder that has it and what builds it, with UV_NO_INDEX=1?"
    )
    if bench.label:
        lock = f"`envmgr lock {bench.label}`"
        hint += f"\n  {lock} writes EasyBuild's files into the lock, and `envmgr fetch` brings them then"
    _run(version, [venv, [*install, f"easybuild=={version}"]], _uv_environment(bench.environ), bench.runner, hint=hint)


def _run(
    version: str, commands: Sequence[Sequence[str | Path]], env: Mapping[str, str], runner: Runner, *, hint: str
) -> None:
    try:
        for argv in commands:
            runner.run(argv, env=env, timeout=_LIMIT)
    except CommandError as error:
        raise EnvmgrError(
            "easybuild-unavailable", f"EasyBuild {version} could not be installed", context=error.context, hint=hint
        ) from error


def _uv_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return uv's environment: proxies, certificates and the places of packages pass, nothing else of the shell."""
    own = passed(environ, "UV_*", *NETWORK)
    env = clean_env(UV_NATIVE_TLS="1", UV_NO_PROGRESS="1", **(uv_settings(environ) | own))
    if not os.access(env.get("HOME", "/nonexistent"), os.W_OK):
        env["UV_NO_CACHE"] = "1"  # a build user without a home
    return env
