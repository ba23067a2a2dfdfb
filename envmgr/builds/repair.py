"""A damaged install made again, into the same path: from its lock, by the cache or the mirrors, with no new solve."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from envmgr.backends import LoadedEntry
from envmgr.builds.install import compare_promised, provenance, with_gpu_codes
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.manifest import Manifest, differences, make_manifest, write_manifest
from envmgr.store.prefix import Install, Item
from envmgr.store.verify import Verified
from envmgr.system.files import atomic_write, explain_os_error, read_regular, sha256_file
from envmgr.system.locks import file_lock
from envmgr.system.run import Runner


def may_repair(made_by: LoadedEntry, item: Item, runner: Runner) -> None:
    """Raise EnvmgrError `repair-impossible` if the install cannot be built again here."""
    if not made_by.lock.backend.stages:
        raise EnvmgrError(
            "repair-impossible",
            f"{item.install.entry} can only be built in its place: {made_by.recipe.backend} makes no install beside it",
            context=str(item.install.path),
            hint=f"when nobody uses it: remove {item.install.manifest} and run `envmgr build {made_by.lock.entry}`",
        )
    made_by.lock.backend.may_replace(item.install, runner)


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
) -> bool:
    """Build the install again and replace the existing one. Return whether it got a new manifest.

    `known` is its manifest; None if that was changed as well. If the new install agrees with `known`, the manifest
    keeps its bytes. A new one is written without `known`, and for a backend whose builds may have other bytes.

    Raises:
        EnvmgrError: `repair-impossible`, `repair-differs`; any error of the backend. The install is then as it was.
    """
    may_repair(made_by, item, runner)
    install, lock = item.install, made_by.lock

    def waiting(holder: str) -> None:
        reporter.say(f"{install.entry}: waiting for {holder}, which builds it")

    with (
        explain_os_error(install.lock),
        file_lock(install.lock, on_wait=waiting, check=runner.raise_if_cancelled) as held,
    ):
        verified.require_needs(item, lock.entry, runner, reporter)
        reporter.log(f"{install.entry}: building {install.path} again")
        exact = known.tree if known is not None and lock.backend.reproducible else ""
        built = lock.build(replace(item, install=replace(install, replaces=exact)), site, runner, reporter, jobs=jobs)
        if known is not None and not _differs(install, known):
            if install.manifest.lstat().st_uid != os.geteuid():  # to whom all of an install belongs
                atomic_write(install.manifest, read_regular(install.manifest), mode=0o444)
            verified.made(install.relative)
            return False
        if known is not None and lock.backend.reproducible:
            raise EnvmgrError(
                "repair-differs",
                f"{install.path} was made again, and is still not what its manifest says",
                context=_differs(install, known)[:10],
                hint="does something change it all the time? `envmgr verify` tells",
            )
        facts = with_gpu_codes(built.facts, install, made_by.recipe, lock, runner, reporter)
        with reporter.stage(f"{install.entry} check", unit="files"):
            manifest = make_manifest(
                install.path,
                install.digest,
                facts,
                provenance(install, made_by.recipe, lock, built, site),
                mask=site.policies.mask,
                workers=max(2, jobs),
                extra=_extra(built.extra, site),
            )
            compare_promised(install, built.expected, {p.path: p.sha256 for p in manifest.paths})
            held.require()
            write_manifest(install.manifest, manifest)
        if known is not None:
            reporter.say(
                f"{install.entry}: built again from the same lock, it has other bytes than before, as builds "
                "from source may have: "
                "it gets a new manifest"
            )
        verified.made(install.relative)
    return True


def _differs(install: Install, known: Manifest) -> list[str]:
    """Return the differences of the install, and of its files elsewhere, from its manifest."""
    lines = differences(install.path, known)
    for path, sha256 in known.extra.items():
        file = install.prefix.root / path
        if sha256 and sha256_file(file) != sha256:
            lines.append(f"{path}: sha256 changed")
    return lines


def _extra(paths: tuple[Path, ...], site: Site) -> dict[str, str]:
    return {str(path.relative_to(site.prefix)): sha256_file(path) for path in paths}
