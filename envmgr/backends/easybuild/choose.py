"""Which EasyBuild runs: that of envmgr's own environment where it may be used, else a private one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from envmgr.backends.easybuild.lock import EasyBuildLock
from envmgr.backends.easybuild.making import Files
from envmgr.backends.easybuild.own import own_places, why_not_own
from envmgr.backends.easybuild.private import ensure_private, find_private, is_complete, site_home
from envmgr.backends.easybuild.sourcing import collect_easybuild
from envmgr.backends.easybuild.tool import EasyBuild
from envmgr.catalog.site import Site
from envmgr.modules.lmod import find_lmod
from envmgr.nodes import JobOptions, ask_a_node
from envmgr.report import Reporter
from envmgr.system.run import Runner


def easybuild_for_build(
    lock: EasyBuildLock,
    site: Site,
    environ: Mapping[str, str],
    runner: Runner,
    reporter: Reporter,
    *,
    label: str = "",
    nodes: JobOptions | None = None,
) -> EasyBuild:
    """What builds run that the lock stands for: envmgr's own where it may be used, else the prefix's, made if it is not there.
    `label` is the entry, for hints.

    With `nodes`, the builds are Slurm jobs that ask for this: a node that is free is asked whether envmgr's own may be used there.
    Where none is, each job sees for itself.

    Raises:
        EnvmgrError: `easybuild-differs` for another EasyBuild than the lock's; see `ensure_private`, `collect_easybuild`.
    """
    home = site_home(lock.framework, site)
    why = why_not_own(lock.framework, lock.easybuild_sha256)
    if not why and nodes is not None and not is_complete(home):
        why = _why_not_on_nodes(lock, nodes, site, runner)
    if why:
        tell = reporter.log if is_complete(home) else reporter.say
        tell(f"EasyBuild {lock.framework}: envmgr's own is not used: {why}")

        def bring() -> Mapping[str, Path]:
            return collect_easybuild(lock, site, runner, reporter, label=label)

        tool = ensure_private(
            lock.framework,
            home,
            site,
            environ,
            runner,
            reporter,
            contents=lock.easybuild_sha256,
            files=Files(lock.easybuild_files, bring) if lock.easybuild_files else None,
            label=label,
        )
    else:
        tool = _own(lock.framework, site, environ, runner)
    tool.require(lock.framework, lock.easyblocks)
    return tool


def needs_private(lock: EasyBuildLock, site: Site) -> bool:
    """Whether a build here would make a private EasyBuild."""
    if is_complete(site_home(lock.framework, site)):
        return False
    return bool(why_not_own(lock.framework, lock.easybuild_sha256))


def easybuild_for_lock(
    version: str, home: Path, site: Site, environ: Mapping[str, str], runner: Runner, reporter: Reporter
) -> EasyBuild:
    """What resolves easyconfigs: envmgr's own, one that is there already, or one that is made in `home`."""
    if not (why := why_not_own(version, None)):
        return _own(version, site, environ, runner)
    reporter.log(f"EasyBuild {version}: envmgr's own is not used: {why}")
    found = find_private(version, site, environ, runner)
    return found or ensure_private(version, home, site, environ, runner, reporter)


def _own(version: str, site: Site, environ: Mapping[str, str], runner: Runner) -> EasyBuild:
    lmod = find_lmod(site.lmod.dir, environ, runner=runner)
    return EasyBuild(Path(sys.executable), own_places(), version, lmod.commands / "lmod")


def _why_not_on_nodes(lock: EasyBuildLock, options: JobOptions, site: Site, runner: Runner) -> str:
    argv = [sys.executable, "-I", "-m", "envmgr.backends.easybuild.own", lock.framework, lock.easybuild_sha256]
    why = ask_a_node(argv, options, site, runner)
    return f"on {why}" if why else ""
