"""`envmgr lock` of an EasyBuild entry: the closure, one sha256 for every source, and EasyBuild's own files.

EasyBuild and easyconfigs run in a process of their own (`resolve`, `inside/resolve.py`). For root, the whole lock is
made in a process of the site's build user, which cannot become root: this module as a program, with one request on
stdin and one line with the answer on stdout. The answer is read as a lock is read, and compared with what was asked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from envmgr.backends.easybuild import Workbench
from envmgr.backends.easybuild.choose_easybuild import easybuild_for_lock, site_home, user_home
from envmgr.backends.easybuild.installation import fault_of, way_to
from envmgr.backends.easybuild.lock import EasyBuildLock
from envmgr.backends.easybuild.resolve import resolve_easyconfig
from envmgr.backends.easybuild.settings import SETTINGS, EasyBuildInput, easyconfig_folders, own_easyconfigs
from envmgr.backends.easybuild.sources import find_files
from envmgr.catalog.names import Entry, parse_entry
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, ErrorData, InputError, ending
from envmgr.report import Reporter, SilentReporter
from envmgr.system.child import NETWORK, passed, python_module
from envmgr.system.models import FrozenModel
from envmgr.system.modes import ask_about_way, closing
from envmgr.system.run import Runner, clean_env
from envmgr.system.users import Account, runs_for_root

# Their easyblocks take the first of several capabilities, sorted as texts, with a warning.
# Source: easybuild-easyblocks 5.4.1, kokkos.py, lammps.py.
_ONE_OF_SEVERAL = ("Kokkos", "LAMMPS")
# What EasyBuild's environment is made with, and where Lmod is; nothing else of root's shell passes.
_PASSED = ("LMOD_PKG", "LMOD_DIR", "LMOD_CMD", "UV_*", "PIP_*", *NETWORK)


class LockRequest(BaseModel):
    model_config = ConfigDict(frozen=True)

    entry: str
    wanted: EasyBuildInput
    site: Site


class LockAnswer(FrozenModel):
    """A lock with its notes, or an error."""

    lock: EasyBuildLock | None = None
    notes: tuple[str, ...] = ()
    error: ErrorData | None = None


def make_lock(
    entry: Entry, wanted: EasyBuildInput, bench: Workbench, *, shared: bool = False
) -> tuple[EasyBuildLock, tuple[str, ...]]:
    """Return the lock, and notes for the person who makes it.

    Root lets the site's build user run EasyBuild and the easyconfigs; without one, both must be root's own. With
    `shared`, an EasyBuild that has to be made is the prefix's.

    Raises:
        EnvmgrError: see `resolve_easyconfig`; `easybuild-unavailable`; `easyconfig-untrusted`, and see
            `runs_for_root`.
    """
    site, version = bench.site, wanted.easybuild
    folders = [folder for folder in easyconfig_folders(site) if folder.exists()]
    account = runs_for_root(site.build_user, site.prefix, mask=site.policies.mask, reads=folders)
    if account is not None:
        return make_lock_as(account, entry, wanted, site, bench.runner, bench.reporter)
    if os.geteuid() == 0:
        require_own_easyconfigs(site)
    home = site_home(version, site) if shared else user_home(version, bench.environ)
    tool = easybuild_for_lock(version, home, bench)
    with bench.reporter.stage(f"{entry} resolve"):
        lock = resolve_easyconfig(wanted, tool, site, bench.runner)
    files, why = find_files(version, lock.easybuild_sha256, bench)
    notes = [f"the lock does not name the files that EasyBuild {version} is made from: {why}"] if why else []
    return lock.model_copy(update={"easybuild_files": files}), (*notes, *_notes(lock, wanted))


def _notes(lock: EasyBuildLock, wanted: EasyBuildInput) -> Iterator[str]:
    """Yield sources that were locked by what lies in a mirror, and settings of GPUs that have no effect."""
    for item in lock.items:
        for source in (*item.sources, *item.files):
            if source.unhashed:
                yield f"{source.name} has no checksum upstream: locked by the file in a mirror ({source.unhashed})"
    asked = {setting for item in lock.items for setting in item.asks}
    for setting in SETTINGS:
        if getattr(wanted, setting) and setting not in asked:
            yield f"input.{setting}: no easyconfig of the closure asks for it"
        if setting in asked and not getattr(lock, setting):
            yield f"{setting} is neither in site.yaml nor in the recipe: easyconfigs that need it fail when they are built"
    values = lock.cuda_compute_capabilities
    for item in lock.items:
        if item.name in _ONE_OF_SEVERAL and len(values) > 1:
            one = f"its easyblock compiles for only one of {', '.join(values)}"
            yield f"{item.key}: {one}: name the one that you need in the recipe"


def make_lock_as(
    account: Account, entry: Entry, wanted: EasyBuildInput, site: Site, runner: Runner, reporter: Reporter
) -> tuple[EasyBuildLock, tuple[str, ...]]:
    """Make a lock like `make_lock`, in a process of that user.

    EasyBuild is the prefix's; that user makes it if needed.

    Raises:
        EnvmgrError: those of `make_lock`; `easybuild-failed` for an invalid answer.
    """
    request = LockRequest(entry=str(entry), wanted=wanted, site=site)
    env = clean_env(PYTHONDONTWRITEBYTECODE="1", **account.variables(), **passed(os.environ, *_PASSED))
    # That user may not be able to write to root's folders.
    for of_root in ("TMPDIR", "UV_CACHE_DIR"):
        env.pop(of_root, None)
    with reporter.stage(f"{entry} resolve"):
        done = runner.run(
            python_module("envmgr.backends.easybuild.make_lock"),
            env=env,
            # That user may not be able to enter root's working directory.
            cwd=Path("/"),
            check=False,
            stdin=request.model_dump_json(by_alias=True),
            run_as=account,
        )
    try:
        answer = LockAnswer.model_validate_json(done.stdout.splitlines()[-1])
    except (ValidationError, IndexError):
        answer = LockAnswer()
    if answer.error is not None:
        raise answer.error.as_error()
    if answer.lock is None or answer.lock.recipe != wanted.digest():
        raise EnvmgrError(
            "easybuild-failed",
            f"EasyBuild {wanted.easybuild} did not resolve {wanted.easyconfig}",
            context=[
                f"its process {ending(done.returncode)}; it ran as {account.name}",
                *done.stderr.strip().splitlines()[-12:],
            ],
        )
    return answer.lock, answer.notes


def require_own_easyconfigs(site: Site) -> None:
    """Raise InputError `easyconfig-untrusted` for a folder of the site that other users may write to, or a file in one.

    Those that ship with envmgr are as safe as envmgr itself.
    """
    for root in own_easyconfigs(site):
        if not root.exists():
            continue
        for path in (*way_to(root), *way_to(root.resolve()), *_inside(root)):
            if why := fault_of(path):
                text = "an easyconfig is a program, which root would run: the site names no build user to run it as"
                hint = f"name a build_user in site.yaml; or {_fix_for(path)}"
                raise InputError("easyconfig-untrusted", f"{path} {why}", context=text, hint=hint)


def _fix_for(path: Path) -> str:
    """Return the fix. `chown` and `chmod` of a link would change its target, which may belong to any user."""
    if path.resolve() != path.absolute():
        return ask_about_way(str(path))
    return f"look at it, then `chown` it, or `{closing('go-w', str(path))}`"


def _inside(root: Path) -> Iterator[Path]:
    yield root
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = [name for name in folders if name != ".git"]
        for path in (Path(folder, name) for name in sorted([*folders, *files])):
            yield path
            if path.is_symlink():  # who can rename a folder above its target can replace it
                yield from way_to(path.resolve())


def answer(request: LockRequest) -> LockAnswer:
    """Make the lock as the user that this process runs as. An EasyBuild that has to be made is the prefix's."""
    entry = parse_entry(request.entry)
    bench = Workbench(request.site, os.environ, Runner(), SilentReporter(), request.entry)
    try:
        lock, notes = make_lock(entry, request.wanted, bench, shared=True)
    except EnvmgrError as error:
        return LockAnswer(error=ErrorData.of(error))
    return LockAnswer(lock=lock, notes=notes)


def main() -> None:
    request = LockRequest.model_validate_json(sys.stdin.read())
    os.umask(request.site.policies.mask)
    sys.stdout.write(answer(request).model_dump_json() + "\n")


if __name__ == "__main__":
    main()
