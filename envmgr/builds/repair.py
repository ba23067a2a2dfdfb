"""A damaged install made again, into the same path: from its lock, by the cache or the mirrors, with no new solve."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from envmgr.backends import LoadedEntry
from envmgr.builds.install import compare_promised, provenance
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.manifest import Manifest, differences, make_manifest, write_manifest
from envmgr.store.prefix import Item
from envmgr.store.verify import Verified
from envmgr.system.files import atomic_write, explain_os_error, file_lock, read_regular, sha256_file
from envmgr.system.run import Runner


def may_repair(made_by: LoadedEntry, item: Item) -> None:
    """Raises EnvmgrError `repair-impossible`."""
    if not made_by.lock.backend.stages:
        raise EnvmgrError(
            "repair-impossible",
            f"{item.install.entry} can only be built in its place: {made_by.recipe.backend} makes no install beside it",
            context=str(item.install.path),
            hint=f"when nobody uses it: remove {item.install.manifest} and run `envmgr build {made_by.lock.entry}`",
        )


def repair_install(
    made_by: LoadedEntry,
    item: Item,
    known: Manifest | None,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    *,
    jobs: int,
    verified: Verified,
) -> None:
    """Build the install again and put it in the place of what lies there. `known` is its manifest, which stays to the byte; None
    where it was changed as well, and a new one is written.

    Raises:
        EnvmgrError: `repair-impossible`, `repair-differs`; whatever the backend raises. The install is then as it was.
    """
    may_repair(made_by, item)
    install, lock = item.install, made_by.lock

    def waiting(holder: str) -> None:
        reporter.say(f"{install.entry}: waiting for {holder}, which builds it")

    with explain_os_error(install.lock), file_lock(install.lock, on_wait=waiting, check=runner.raise_if_cancelled):
        verified.require_needs(item, lock.entry, runner, reporter)
        reporter.log(f"{install.entry}: building {install.path} again")
        again = replace(item, install=replace(install, replaces="" if known is None else known.tree))
        built = lock.build(again, site, runner, reporter, jobs=jobs)
        with reporter.stage(f"{install.entry} check", unit="files"):
            if known is not None:
                if install.manifest.lstat().st_uid != os.geteuid():  # to whom all of an install belongs
                    atomic_write(install.manifest, read_regular(install.manifest), mode=0o444)
                wrong = differences(install.path, known)
            else:
                manifest = make_manifest(
                    install.path, install.digest, built.facts, provenance(install, made_by.recipe, lock, built, site),
                    mask=site.policies.mask, workers=max(2, jobs), extra=_extra(built.extra, site),
                )  # fmt: skip
                compare_promised(install, built.expected, {p.path: p.sha256 for p in manifest.paths})
                write_manifest(install.manifest, manifest)
                wrong = []
        if wrong:
            raise EnvmgrError(
                "repair-differs", f"{install.path} was made again, and is still not what its manifest says",
                context=wrong[:10], hint="does something change it all the time? `envmgr verify` tells",
            )  # fmt: skip
        verified.made(install.relative)


def _extra(paths: tuple[Path, ...], site: Site) -> dict[str, str]:
    return {str(path.relative_to(site.prefix)): sha256_file(path) for path in paths}
