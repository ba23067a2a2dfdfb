"""Installation of a conda lock.

Steps: download, check, link into a sibling folder, compile, mark, make read-only, rename, capture activation.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from envmgr.backends.conda.activate import capture_activation
from envmgr.backends.conda.client import ADDER, INSTALLER, failure_for, failure_of_added
from envmgr.backends.conda.lock import PYTHON, UNPACKED, CondaLock, LockedPackage
from envmgr.backends.conda.models import Channel, CondaInput, channels_of, package_cache
from envmgr.catalog.site import Site
from envmgr.downloads import Download, Fetched
from envmgr.downloads.bars import WorkerBars, promised_by_worker
from envmgr.downloads.bring import Fetching
from envmgr.downloads.fetch import DownloadSet, fetch_sets
from envmgr.report import Reporter
from envmgr.store.build_folders import staged_install
from envmgr.store.manifest import InstallFacts, path_environment
from envmgr.store.prefix import Install, Prefix
from envmgr.system.child import call_worker
from envmgr.system.run import Runner
from envmgr.wheels.settings import wheel_cache


def install_packages(
    lock: CondaLock,
    wanted: CondaInput,
    downloads: Sequence[DownloadSet],
    install: Install,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    *,
    jobs: int,
) -> tuple[InstallFacts, dict[str, str]]:
    """Make `install.path` from the lock and its `downloads`, read-only. Return its facts, and path -> sha256 as the packages promise it.

    On any failure neither staging nor a partial install stays; downloads stay in the cache, checked.
    """
    packages, *more = downloads
    with staged_install(install, site) as staged:
        package_cache(install.prefix).mkdir(parents=True, exist_ok=True)
        label = str(install.entry)
        how = Fetching(site.policies, runner, reporter, label)
        wheels = fetch_sets(more, how, {}).paths
        fetched = fetch_sets([packages], replace(how, copy=False, unpacked=UNPACKED), {})
        with ExitStack() as stack:
            bars = WorkerBars(label, reporter, stack, work=("link", "packages", len(lock.packages)))
            request = _request(lock, install, fetched, jobs)
            call_worker(INSTALLER, request, runner, reporter, failure=failure_for(label), on_event=bars.on_event)
        staged.promised |= promised_files(staged.folder)
        if lock.added is not None:
            from envmgr.wheels.install import require_wheels  # slow to load, and most locks have no wheels

            files = {row: wheels[row.sha256] for row in lock.added.rows}
            require_wheels(files, lock.added.python, lock.added.platform, f"run `envmgr lock {label}`")
            staged.promised |= _add_wheels(lock, wheels.values(), wanted, install, runner, reporter, jobs=jobs)
        staged.land()  # activation scripts run at the final path
        facts = _facts(install.path, lock, runner, reporter)
    return facts, staged.promised


def download_places(package: LockedPackage, channels: Collection[Channel]) -> list[str]:
    """Return the places of a package in the order to try: the site's mirrors of its channel, then its own URL."""
    mirrors = next((c.mirrors for c in channels if c.url == package.channel), ())
    return [*(f"{mirror}/{package.subdir}/{package.file_name}" for mirror in mirrors), package.url]


def archives(lock: CondaLock, label: str, site: Site) -> DownloadSet:
    """Return the packages as downloads; `label` is the entry."""
    channels = channels_of(site).values()
    files = (Download(p.file_name, p.sha256, tuple(download_places(p, channels)), p.size) for p in lock.packages)
    return DownloadSet(tuple(files), package_cache(Prefix(site.prefix)), failure_for(label))


def _request(lock: CondaLock, install: Install, fetched: Fetched, jobs: int) -> dict[str, object]:
    """Return the request for install_worker.py."""
    return {
        "records": [p.to_json() | {"file": p.file_name, "path": str(fetched.paths[p.sha256])} for p in lock.packages],
        "staging": str(install.staging),
        "final": str(install.path),
        "cache": str(package_cache(install.prefix)),
        "platform": lock.platform,
        "jobs": jobs,
        "more": lock.added is not None,
    }


def _add_wheels(
    lock: CondaLock,
    wheels: Collection[Path],
    wanted: CondaInput,
    install: Install,
    runner: Runner,
    reporter: Reporter,
    *,
    jobs: int,
) -> dict[str, str]:
    """Add the wheels to the staging folder, which has conda's packages. Return path -> sha256 as the wheels
    promise it.
    """
    from envmgr.backends.conda.pip import promised_distributions  # slow to load, and most locks have no wheels

    promised = promised_distributions(lock.packages)
    request = {
        "wheels": [str(path) for path in sorted(wheels, key=lambda path: path.name)],
        "staging": str(install.staging),
        "final": str(install.path),
        "python": lock.versions[PYTHON],
        "entry": str(install.entry),
        "pip": wanted.pip,
        "platform": wanted.question().platform,
        "promised": {name: " ".join(brings) for name, brings in promised.items()},
        "cache": str(wheel_cache(install.prefix)),
        "jobs": jobs,
    }
    label = str(install.entry)
    return promised_by_worker(ADDER, request, len(wheels), label, runner, reporter, failure=failure_of_added(label))


def _facts(root: Path, lock: CondaLock, runner: Runner, reporter: Reporter) -> InstallFacts:
    version = lock.versions.get(PYTHON)
    return InstallFacts(
        environment=(*path_environment(root), *capture_activation(root, runner, log=reporter.log)),
        python=".".join(version.split(".")[:2]) if version else None,
    )


def promised_files(root: Path) -> dict[str, str]:
    """Return path -> sha256 as the packages promise it, for every file that is linked and not generated here."""
    promised = {}
    for path in sorted((root / "conda-meta").glob("*.json")):
        for item in (json.loads(path.read_bytes()).get("paths_data") or {}).get("paths", []):
            digest = item.get("sha256_in_prefix") or item.get("sha256")
            # Compiled files of the packages are compiled again, with hashes in place of times.
            if digest and item.get("path_type") == "hardlink" and not item["_path"].endswith(".pyc"):
                promised[item["_path"]] = digest
    return promised
