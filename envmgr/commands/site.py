"""`envmgr init` and `site check`: make a site and a catalog, and explain what one says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import ValidationError

from envmgr.backends import all_backends
from envmgr.builds.install import group_faults, write_faults
from envmgr.catalog.entries import closed_catalog
from envmgr.catalog.settings import SiteFact, mirrors_fact
from envmgr.catalog.site import FILE_NAME, MAX_PREFIX, Site
from envmgr.catalog.site_file import SiteFile
from envmgr.catalog.target import read_target
from envmgr.commands import Context
from envmgr.commands.upgrade import explain_upgrade
from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.lmod import find_lmod
from envmgr.report import Result
from envmgr.store.place import require_place
from envmgr.store.prefix import Prefix
from envmgr.system.files import atomic_write, clear_temporaries, explain_os_error, free_bytes, group_id
from envmgr.system.modes import give_place
from envmgr.system.mounts import LOCKS_HINT, local_locks, mount_of
from envmgr.system.scratch import temporary_files
from envmgr.system.users import access_faults, find_account
from envmgr.system.yamlfile import reason_of
from envmgr.wording import size_text

SHEBANG_LIMIT = 127  # longer #! lines are not run by the kernel; conda packages then start through /bin/sh


@dataclass(frozen=True, slots=True)
class InitResult(Result):
    schema: ClassVar[str] = "envmgr.init/1"
    site: str
    catalog: str
    prefix: str
    dry_run: bool


@dataclass(frozen=True, slots=True)
class SiteCheckResult(Result):
    """`source` is None for the embedded site."""

    schema: ClassVar[str] = "envmgr.site-check/1"
    source: str | None
    facts: tuple[SiteFact, ...]

    @property
    def exit_code(self) -> int:
        return 1 if any(f.status == "error" for f in self.facts) else 0


_SITE = """\
# The site: where things lie on this cluster. `envmgr site check` explains every line of it.
schema: 1
name: {name}

# The same path on every node; on a shared file system for more than one.
prefix: {prefix}

# Your recipes, beside this file; the catalog that ships with envmgr comes after them.
catalogs: [recipes]

# The owner of the prefix; envmgr started as root changes to this user.
# build_user: envmgr

# login_nodes: master
# groups:
#   compute: {{nodes: "c[1-3]"}}

# Let TaskProlog unset what `sbatch --export=NONE` leaves behind, by which srun in such a job passes on nothing of its modules.
# slurm: {{heal_export: true}}

policies:
  keep_generations: 10
  keep_days: 60
  driver_gate: warn

# Settings of one backend each.
backends:
  easybuild:
    # Your easyconfigs (EasyBuild's files), laid out as z/zlib/zlib-1.3.1.eb; those that ship with envmgr, and EasyBuild's own,
    # come after.
    easyconfigs: [easyconfigs]
    # The GPUs that software is compiled for, where it asks; after an audit `envmgr site check` proposes the line.
    # cuda_compute_capabilities: ["7.5", "8.6"]
  # conda:
  #   channels:
  #     conda-forge:
  #       url: https://conda.anaconda.org/conda-forge
  #       mirrors: [/mnt/mirror/conda-forge]
"""


def init_site(folder: Path, *, prefix: Path, name: str, dry_run: bool = False) -> InitResult:
    """Write `site.yaml` and an empty catalog into `folder`; an existing site is never overwritten."""
    target = folder.resolve() / FILE_NAME
    if not dry_run:
        clear_temporaries(target.parent, FILE_NAME)
    if target.exists():
        raise InputError("site-exists", f"{target} exists", hint="edit it, or choose another folder")
    try:
        SiteFile(schema=1, name=name, prefix=prefix)
    except ValidationError as error:
        reasons = [reason_of(e) for e in error.errors()]
        raise InputError("site-invalid", f"{prefix} cannot be the prefix", context=reasons) from None
    if not dry_run:
        for own in ("recipes", "easyconfigs"):
            with explain_os_error(target.parent / own):
                (target.parent / own).mkdir(parents=True, exist_ok=True)
        atomic_write(target, _SITE.format(name=name, prefix=prefix))  # last: a site that is there is whole
    return InitResult(str(target), str(target.parent / "recipes"), str(prefix), dry_run)


def check_site(ctx: Context) -> SiteCheckResult:
    """Every setting with what it means here, and what is wrong with it. Reads this machine; asks no network."""
    site = ctx.site
    facts = (
        *_prefix(site),
        *_build_user(site),
        *_catalogs(ctx),
        *_lmod(ctx),
        *_old_keys(site),
        *(fact for backend in all_backends() for fact in backend.explain(site)),
        *_sources(site),
        *_build_dir(site),
        *_nodes(site),
        *_slurm(site),
        *_policies(site),
        *explain_upgrade(ctx),
    )
    return SiteCheckResult(str(site.source) if site.source else None, facts)


def _prefix(site: Site) -> Iterator[SiteFact]:
    prefix = site.prefix
    existing = next(p for p in (prefix, *prefix.parents) if p.exists())
    if prefix.exists():
        free = size_text(free_bytes(prefix))
        yield SiteFact("prefix", "ok", f"{prefix}, {free} free on {_file_system(prefix)}")
        try:
            require_place(Prefix(prefix))
        except EnvmgrError as error:
            yield SiteFact("prefix", "error", error.message, error.hint)
        kind, _, options = mount_of(prefix)
        if site.mount.locks != "local" and (local := local_locks(kind, options)):
            yield SiteFact("mount.locks", "warning", local[1], LOCKS_HINT)
    elif os.access(existing, os.W_OK) or (os.geteuid() == 0):
        yield SiteFact("prefix", "ok", f"{prefix} does not exist yet; the first build makes it")
    else:
        yield SiteFact(
            "prefix",
            "error",
            f"{prefix} does not exist and {existing} cannot be written",
            "make it, and give it to the build user",
        )
    longest = len(str(prefix / "store" / "pytorch" / "2.1-cuda11.8-01234567" / "bin" / "python"))
    if longest > MAX_PREFIX + len("/bin/python"):
        yield SiteFact(
            "prefix",
            "error",
            f"{longest} characters to an interpreter: packages have room for {MAX_PREFIX}",
            "choose a shorter prefix",
        )
    elif longest > SHEBANG_LIMIT:
        yield SiteFact(
            "prefix",
            "warning",
            f"{longest} characters to an interpreter: scripts start through /bin/sh",
            "a shorter prefix avoids it",
        )
    if prefix.exists() and site.build_user is None and not os.access(prefix, os.W_OK):
        yield SiteFact(
            "prefix", "error", f"{prefix} cannot be written by you", "name its owner as build_user, or run as that user"
        )


def _build_user(site: Site) -> Iterator[SiteFact]:
    if site.build_user is None:
        yield SiteFact("build_user", "ok", "none: installs belong to the user that runs envmgr")
        return
    account = find_account(site.build_user)
    if account is None:
        yield SiteFact(
            "build_user", "error", f"{site.build_user} does not exist here", f"useradd --system {site.build_user}"
        )
        return
    foreign = site.prefix.exists() and site.prefix.stat().st_uid != account.uid
    reads = [
        *site.read_by_verbs,
        *(path for backend in all_backends() for path in backend.reads(site)),
        *_in_catalogs(site),
    ]
    faults = access_faults(account, reads, lambda: () if foreign else write_faults(site, account))
    faults = None if faults is None else (*faults, *group_faults(site, account))
    known = f"{site.build_user} (uid {account.uid})"
    if faults is None:
        yield SiteFact(
            "build_user", "ok", f"{known}; what it can run, read and write is seen by root and {site.build_user} alone"
        )
    elif not faults:
        yield SiteFact("build_user", "ok", f"{known}: it can run envmgr, read the site and write the prefix")
    for fault in faults or ():
        yield SiteFact("build_user", "error", f"{fault.reference}: {fault.message}", fault.hint)
    if foreign:
        yield SiteFact(
            "prefix",
            "error",
            f"{site.prefix} does not belong to {site.build_user}",
            give_place(site.build_user, site.prefix),
        )


def _in_catalogs(site: Site) -> Iterator[Path]:
    """All that a build may read in the site's own catalogs."""
    for root in site.catalogs:
        if root != site.shipped_catalog and closed_catalog(root) is None:
            yield from (path for depth in ("*", "*/*", "*/*/*") for path in sorted(root.glob(depth)))


def _catalogs(ctx: Context) -> Iterator[SiteFact]:
    for root in ctx.site.catalogs:
        label = f"{root} (ships with envmgr, read-only)" if root == ctx.site.shipped_catalog else str(root)
        if closed := closed_catalog(root):
            yield SiteFact("catalogs", "error", closed.message, closed.hint)
            continue
        if not root.is_dir():
            yield SiteFact("catalogs", "error", f"{label} does not exist", f"mkdir {root}")
            continue
        count = len(list(root.glob("*/*/recipe.yaml")))
        yield SiteFact("catalogs", "ok", f"{label}: {count} recipe{'' if count == 1 else 's'}")


def _lmod(ctx: Context) -> Iterator[SiteFact]:
    try:
        lmod = find_lmod(ctx.site.lmod.dir, ctx.environ, runner=ctx.runner)
        yield SiteFact("lmod", "ok", f"Lmod {lmod.version()} in {lmod.package}")
    except EnvmgrError as error:
        yield SiteFact("lmod", "error", error.message, error.hint)


def _old_keys(site: Site) -> Iterator[SiteFact]:
    if site.old_keys:
        now = ", ".join(f"backends.{backend}.{name}" for backend, name in site.old_keys.values())
        old = ", ".join(site.old_keys)
        yield SiteFact(
            "backends", "warning", f"{old}: read as {now}", "move what they say there: the old names will go"
        )


def _sources(site: Site) -> Iterator[SiteFact]:
    upstream = "from upstream" if site.sources.upstream else "never from upstream"
    yield mirrors_fact("sources", [upstream], site.sources.mirrors)


def _build_dir(site: Site) -> Iterator[SiteFact]:
    yield SiteFact("build_dir", "ok", f"software is compiled in {site.build_dir or temporary_files()}")


def _slurm(site: Site) -> Iterator[SiteFact]:
    heal = site.slurm.heal_export
    if heal is not None:
        yield SiteFact(
            "slurm.heal_export",
            "ok",
            "TaskProlog unsets SLURM_EXPORT_ENV: srun in a job with --export=NONE passes on what modules set"
            if heal
            else "SLURM_EXPORT_ENV stays: srun in a job with --export=NONE passes nothing on, and modules say so",
        )


def _nodes(site: Site) -> Iterator[SiteFact]:
    if not site.groups and not site.login_nodes:
        yield SiteFact("groups", "ok", "none: this machine alone")
    if site.login_nodes:
        yield SiteFact("login_nodes", "ok", site.login_nodes)
    for name, group in sorted(site.groups.items()):
        kind, value = next((k, v) for k, v in group.model_dump().items() if v is not None)
        yield SiteFact(f"groups.{name}", "ok", f"{value} ({kind})")
    if site.groups:
        t = site.transport
        user = f" as {t.user}" if t.user else ""
        yield SiteFact("transport", "ok", f"{t.via}{user}, {t.fanout} at once, {t.connect_timeout:g} s to connect")


def _policies(site: Site) -> Iterator[SiteFact]:
    p = site.policies
    target = read_target(site.cpu_level)
    yield SiteFact(
        "cpu_level",
        "ok",
        f"{site.cpu_level} on {target.arch}, {target.os_id} {target.os_major}, glibc {target.glibc}: the target of every digest",
    )
    yield SiteFact(
        "policies", "ok", f"{p.keep_generations} generations and {p.keep_days:g} days are kept; umask {p.umask}"
    )
    yield SiteFact("policies.driver_gate", "ok", f"{p.driver_gate} where an NVIDIA driver is too old for a module")
    yield SiteFact(
        "policies.user_site",
        "ok",
        "Python sees ~/.local" if p.user_site else "~/.local is kept out of Python (PYTHONNOUSERSITE)",
    )
    if p.licences:
        yield SiteFact("policies.licences", "ok", f"acknowledged: {', '.join(p.licences)}")
    if p.group:
        try:
            group_id(p.group)
            yield SiteFact("policies.group", "ok", p.group)
        except EnvmgrError as error:
            yield SiteFact("policies.group", "error", error.message, f"groupadd {p.group}")


def _file_system(path: Path) -> str:
    """`ext4` or `nfs4 fs1:/export`."""
    kind, source, _ = mount_of(path)
    return f"{kind} {source}" if ":" in source else kind
