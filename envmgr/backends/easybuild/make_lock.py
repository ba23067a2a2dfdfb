"""`envmgr lock` of an EasyBuild entry: the closure, one sha256 for every source, and EasyBuild's own files.

Root has it done as the site's build user (`lock_as_user`). EasyBuild and easyconfigs run in a process of their own
(`resolve`, `inside/resolve.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from envmgr.backends.easybuild import Workbench
from envmgr.backends.easybuild.choose_easybuild import easybuild_for_lock, site_home, user_home
from envmgr.backends.easybuild.lock import EasyBuildLock
from envmgr.backends.easybuild.lock_as_user import make_lock_as
from envmgr.backends.easybuild.package_index import find_files
from envmgr.backends.easybuild.resolve import resolve_easyconfig
from envmgr.backends.easybuild.settings import SETTINGS, EasyBuildInput, easyconfig_folders
from envmgr.backends.easybuild.trust import require_own_easyconfigs
from envmgr.catalog.names import Entry
from envmgr.system.users import runs_for_root

# Their easyblocks take the first of several capabilities, sorted as texts, with a warning.
# Source: easybuild-easyblocks 5.4.1, kokkos.py, lammps.py.
_ONE_OF_SEVERAL = ("Kokkos", "LAMMPS")


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
    values = lock.cuda_compute_capabilities
    for item in lock.items:
        if item.name in _ONE_OF_SEVERAL and len(values) > 1:
            one = f"its easyblock compiles for only one of {', '.join(values)}"
            yield f"{item.key}: {one}: name the one that you need in the recipe"
