"""The install of a user environment: a virtual environment on the entry's Python with the wheels of the lock, read-only.

It has a manifest, as installs of a site have. Nothing is left of one that did not get to its end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from envmgr.catalog.names import MODULE_NAME, Entry
from envmgr.catalog.site import Site, read_target
from envmgr.downloads import cached_file
from envmgr.downloads.bring import Fetching
from envmgr.downloads.fetch import fetch_sets
from envmgr.errors import EnvmgrError
from envmgr.modules.render import pip_names, render_shim
from envmgr.people.base import BaseEntry, BasePackage
from envmgr.people.lock import UserLock, lock_text
from envmgr.report import Reporter
from envmgr.store.build_folders import staged_install
from envmgr.store.manifest import InstallFacts, make_manifest, path_environment, write_manifest
from envmgr.store.prefix import Install, Prefix, install_digest
from envmgr.store.verify import require_promised
from envmgr.system.files import explain_os_error, remove_tree, shipped
from envmgr.system.locks import file_lock
from envmgr.system.run import Runner
from envmgr.system.safe_paths import remove_below
from envmgr.system.shelltext import quote
from envmgr.wheels.fetch import wheel_files
from envmgr.wheels.install import install_wheels, require_wheels
from envmgr.wheels.lockfile import WHEELS_LOCK
from envmgr.wheels.settings import wheel_cache
from envmgr.wheels.unpack import is_program

# `module:function`, and perhaps extras. Source: packaging.python.org, "Entry points specification".
_FUNCTION = re.compile(r"\s*([A-Za-z_][\w.]*)\s*:\s*([A-Za-z_][\w.]*)\s*(\[[^\r\n]*)?$", re.ASCII)
_AGAIN = "ask the lock's author to export it again: `envmgr user export NAME`"
_LAYOUT = 1  # counts up when the same lock gives another tree


def install_of(name: str, lock: UserLock, prefix: Prefix, site: Site) -> Install:
    """Return the place of the install, whether or not it is there."""
    entry = Entry(MODULE_NAME, name)
    # Its lock lies in the install: what was asked for decides that, too.
    identity = [lock.content, [*lock.requirements], [*lock.replaced]]
    digest = install_digest(entry, "user", identity, read_target(site.cpu_level), prefix.root, layout=_LAYOUT)
    return Install(prefix, entry, digest)


def make_install(
    install: Install, lock: UserLock, base: BaseEntry, site: Site, runner: Runner, reporter: Reporter, *, jobs: int
) -> None:
    """Make the install, unless it is there. `site` is the cluster's: its cache, indexes and mirrors are used.

    Raises:
        EnvmgrError: as downloads and the installation of wheels fail; `disk-full` also for a quota.
    """
    policies = site.policies.model_copy(update={"group": None, "min_free": 0})
    own = site.model_copy(update={"prefix": install.prefix.root, "policies": policies})
    label = str(install.entry)
    downloads = Prefix(install.prefix.cache / install.label)  # its own: another create may be under way
    with (
        explain_os_error(install.lock),
        file_lock(
            install.lock,
            on_wait=lambda holder: reporter.say(f"{label}: waiting for {holder}, which makes it"),
            check=runner.raise_if_cancelled,
        ),
    ):
        if install.exists():
            return
        cached = wheel_cache(Prefix(site.prefix))
        rows = lock.wheels.rows
        given = {row.sha256: path for row in rows if (path := cached_file(cached, row.sha256))}
        try:
            with staged_install(install, own, marks=False) as staged:
                sets = [wheel_files(rows, lock.wheels.indexes, label, own, wheel_cache(downloads))]
                fetched = fetch_sets(sets, Fetching(own.policies, runner, reporter, label), given).paths
                staged.folder.mkdir()
                files = {row: fetched[row.sha256] for row in rows}
                require_wheels(files, base.minor, lock.wheels.platform, _AGAIN)
                promised = install_wheels(
                    [*files.values()],
                    install,
                    runner,
                    reporter,
                    minor=base.minor,
                    base=None,
                    programs=base.programs,
                    jobs=jobs,
                    sees_base=not base.beside,
                    compiles_tests=False,  # half of the files of pandas or scipy: time and inodes for what nobody imports
                )
                _finish(staged.folder, install, lock, base)
                staged.land()
            facts = InstallFacts(environment=path_environment(install.path), python=base.minor)
            provenance = {
                "on": base.entry,
                "base": base.spec.digest,
                "root": base.spec.root,
                "stands_on": [str(path) for path in base.installs],
                "generation": base.number,
            }
            manifest = make_manifest(
                install.path, install.digest, facts, provenance, mask=own.policies.mask, workers=jobs
            )
            try:
                require_promised(install, promised, manifest)
            except EnvmgrError:
                remove_below(install.prefix.root, install.path)  # of the user's quota
                raise
            write_manifest(install.manifest, manifest)
        finally:
            with suppress(OSError):  # downloads count against the user's quota
                remove_tree(downloads.root)


def _finish(folder: Path, install: Install, lock: UserLock, base: BaseEntry) -> None:
    """Add what is no wheel's: the entry's programs for this Python, pip, the lock, and the folders that are joined."""
    packages = folder / "lib" / f"python{base.minor}" / "site-packages"
    # `addsitedir` also follows the files *.pth of the entry's folder.
    rows = [f"import site; site.addsitedir({path!r})" for path in base.beside]
    if rows:
        (packages / "_envmgr_base.pth").write_text("\n".join(rows) + "\n", encoding="utf-8")
    if lock.editable:
        (packages / "_envmgr_editable.pth").write_text("\n".join(lock.editable) + "\n", encoding="utf-8")
    others = [package for name, package in base.packages.items() if name not in lock.versions]
    add_programs(folder, install.path / "bin/python", others, base.minor)
    _write_pip(folder, install, lock, base)
    (folder / WHEELS_LOCK).write_text(lock_text(lock), encoding="utf-8")


def add_programs(folder: Path, python: Path, packages: Sequence[BasePackage], minor: str) -> None:
    """Write the programs of packages for `python`, the environment's; those that are there are its own.

    A program whose name leads elsewhere, or whose value names no function of a module, is left out.
    """
    for script, value in (each for package in packages for each in package.scripts):
        if is_program(script, minor):
            _write_script(folder / "bin" / script, value, python)


def _write_pip(folder: Path, install: Install, lock: UserLock, base: BaseEntry) -> None:
    """Write the pip that changes nothing, and beside it the one that answers questions, where there is one."""
    name = install.entry.version
    there = "pip" in base.packages or "pip" in lock.versions
    if there:
        (folder / "libexec").mkdir()
        _write_script(folder / "libexec/pip", "pip._internal.cli.main:main", install.path / "bin/python")
    program = render_shim(
        f"the environment {name}",
        f"Packages of your own come by the lock of this environment:\n  envmgr user add {quote(name)} PACKAGE",
        str(install.path / "libexec") if there else "",
        shipped("modulefiles"),
        reason="it has what its lock has",
    )
    for each in pip_names(base.minor):
        path = folder / "bin" / each
        path.unlink(missing_ok=True)
        path.write_text(program, encoding="utf-8")
        path.chmod(0o755)


def _write_script(path: Path, value: str, python: Path) -> None:
    from installer.scripts import Script

    named = _FUNCTION.match(value)
    if named is None or path.exists() or path.is_symlink():
        return
    made = Script(path.name, named[1], named[2], "console")
    path.write_bytes(made.generate(str(python), kind="posix")[1])
    path.chmod(0o755)
