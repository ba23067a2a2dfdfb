"""`envmgr lock` of an EasyBuild entry: the closure, and one sha256 for every source."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from envmgr.backends.easybuild.capabilities import ONE_OF_SEVERAL, SETTINGS
from envmgr.backends.easybuild.choose import easybuild_for_lock
from envmgr.backends.easybuild.contents import contents_sum
from envmgr.backends.easybuild.index import find_files
from envmgr.backends.easybuild.input import EasyBuildInput
from envmgr.backends.easybuild.lock import EasyBuildLock
from envmgr.backends.easybuild.lock_as_user import make_lock_as
from envmgr.backends.easybuild.private import site_home, user_home
from envmgr.backends.easybuild.resolve import resolve
from envmgr.backends.easybuild.settings import easyconfig_folders
from envmgr.backends.easybuild.trust import require_own_easyconfigs
from envmgr.catalog.names import Entry
from envmgr.catalog.site import Site
from envmgr.errors import InputError
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.system.files import sha256_file
from envmgr.system.run import Runner
from envmgr.system.users import runs_for_root


def make_lock(
    entry: Entry,
    wanted: EasyBuildInput,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    environ: Mapping[str, str],
    *,
    shared: bool = False,
) -> tuple[EasyBuildLock, tuple[str, ...]]:
    """The lock, and notes for the person: sources that were locked by what lies in a mirror, GPUs that nothing asks for, why
    EasyBuild's files are lacking.

    Root lets the site's build user run EasyBuild and the easyconfigs; without one, both must be root's own. With `shared`,
    an EasyBuild that has to be made is the prefix's.

    Raises:
        EnvmgrError: see `resolve`; `easybuild-unavailable`; `source-unhashed` for one that cannot be looked at;
            `easyconfig-untrusted`, and see `runs_for_root`.
    """
    folders = [folder for folder in easyconfig_folders(site) if folder.exists()]
    account = runs_for_root(site.build_user, site.prefix, mask=site.policies.mask, reads=folders)
    if account is not None:
        return make_lock_as(account, entry, wanted, site, runner, reporter)
    if os.geteuid() == 0:
        require_own_easyconfigs(site)
    version = wanted.easybuild
    home = site_home(version, site) if shared else user_home(version, environ)
    tool = easybuild_for_lock(version, home, site, environ, runner, reporter)
    contents = contents_sum(tool.places)

    def choose(folder: str, name: str, accepted: Sequence[str]) -> str:
        return _choose(folder, name, accepted, site)

    with reporter.stage(f"{entry} resolve"):
        made = resolve(wanted, tool, site, runner, choose=choose)
    files, why = find_files(version, contents, site, runner, reporter)
    made = made.model_copy(update={"easybuild_sha256": contents, "easybuild_files": files})
    notes = [f"the lock does not name the files that EasyBuild {version} is made from: {why}"] if why else []
    notes += [
        f"{s.name} has no checksum upstream: locked by the file in a mirror ({s.unhashed})"
        for item in made.items
        for s in (*item.sources, *item.files)
        if s.unhashed
    ]
    asked = {setting for item in made.items for setting in item.asks}
    idle = [setting for setting in SETTINGS if getattr(wanted, setting) and setting not in asked]
    notes += [f"input.{setting}: no easyconfig of the closure asks for it" for setting in idle]
    notes += [
        f"{item.key}: its easyblock compiles for one of {', '.join(made.cuda_compute_capabilities)} alone: for others name that in the recipe"
        for item in made.items
        if item.name in ONE_OF_SEVERAL and len(made.cuda_compute_capabilities) > 1
    ]
    return made, tuple(notes)


def _choose(folder: str, name: str, accepted: Sequence[str], site: Site) -> str:
    """Of several accepted sha256 that of a file that is here, else the first: upstream's. Without any, that of the file."""
    cache = Prefix(site.prefix).source_cache
    if here := [digest for digest in accepted if (cache / digest / name).is_file()]:
        return here[0]
    found = [sha256_file(path) for path in _in_folders(folder, name, site)]
    if accepted:
        return next((digest for digest in found if digest in accepted), accepted[0])
    if found:
        return found[0]
    raise InputError(
        "source-unhashed",
        f"{name} has no sha256, and no file of that name is here to take it from",
        hint=f"put it into a folder of sources.mirrors (site.yaml), as {folder}/{name}, after you looked at it",
    )


def _in_folders(folder: str, name: str, site: Site) -> Iterator[Path]:
    for mirror in site.sources.mirrors:
        if mirror.startswith("file://"):
            root = Path(unquote(urlsplit(mirror).path))
            places = (root / folder / name, root / folder / "extensions" / name, root / name)
            yield from (path for path in places if path.is_file())
