"""`envmgr site check`: every setting of the site, and what an upgrade of envmgr would change."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from envmgr.backends import all_backends
from envmgr.builds.prepare import group_faults, write_faults
from envmgr.catalog.entries import closed_catalog
from envmgr.catalog.names import parse_entry
from envmgr.catalog.settings import SiteFact, mirrors_fact
from envmgr.catalog.site import MAX_PREFIX, Site, read_target
from envmgr.commands import Context
from envmgr.commands.resolved import ResolvedEntry, plan_for, resolve_entry
from envmgr.errors import EnvmgrError
from envmgr.publish.downstream import downstream_prefixes
from envmgr.publish.records import GenerationRecord, read_current
from envmgr.report import Result
from envmgr.store.place import require_place
from envmgr.store.prefix import Prefix, installs
from envmgr.store.upstream import open_upstream
from envmgr.system.files import free_bytes, group_id
from envmgr.system.locks import LOCKS_HINT, local_locks, mount_of
from envmgr.system.modes import give_place
from envmgr.system.scratch import temporary_files
from envmgr.system.users import access_faults, find_account
from envmgr.wording import and_more, counted, size_text

SHEBANG_LIMIT = 127  # longer #! lines are not run by the kernel; conda packages then start through /bin/sh


@dataclass(frozen=True, slots=True)
class SiteCheckResult(Result):
    """The result of `site check`. `source` is None for the embedded site."""

    schema: ClassVar[str] = "envmgr.site-check/1"
    source: str | None
    facts: tuple[SiteFact, ...]

    @property
    def exit_code(self) -> int:
        return 1 if any(f.status == "error" for f in self.facts) else 0


def check_site(ctx: Context) -> SiteCheckResult:
    """Explain every setting, and what is wrong with it. It reads this machine, and asks no network."""
    site = ctx.site
    facts = (
        *_prefix(site),
        *_upstream(ctx),
        *_downstream(site),
        *_build_user(site),
        *_catalogs(ctx),
        *_lmod(ctx),
        *(fact for backend in all_backends() for fact in backend.explain(site)),
        mirrors_fact(
            "sources", ["from upstream" if site.sources.upstream else "never from upstream"], site.sources.mirrors
        ),
        SiteFact("build_dir", "ok", f"software is compiled in {site.build_dir or temporary_files()}"),
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
        text = f"{prefix} does not exist and {existing} cannot be written"
        yield SiteFact("prefix", "error", text, "make it, and give it to the build user")
    longest = len(str(prefix / "store" / "pytorch" / "2.1-cuda11.8-01234567" / "bin" / "python"))
    if longest > MAX_PREFIX + len("/bin/python"):
        text = f"{longest} characters to an interpreter: packages have room for {MAX_PREFIX}"
        yield SiteFact("prefix", "error", text, "choose a shorter prefix")
    elif longest > SHEBANG_LIMIT:
        text = f"{longest} characters to an interpreter: scripts start through /bin/sh"
        yield SiteFact("prefix", "warning", text, "a shorter prefix avoids it")
    if prefix.exists() and site.build_user is None and not os.access(prefix, os.W_OK):
        hint = "name its owner as build_user, or run as that user"
        yield SiteFact("prefix", "error", f"{prefix} cannot be written by you", hint)


def _upstream(ctx: Context) -> Iterator[SiteFact]:
    path = ctx.site.upstream
    if path is None:
        return
    try:
        prefix = open_upstream(path)
        here = [*installs(prefix)]
    except EnvmgrError as error:
        text = "; ".join((error.message, *error.context))
        yield SiteFact("upstream", "error", text, error.hint)
        return
    except OSError as error:
        yield SiteFact("upstream", "error", f"{error.filename}: {error.strerror}", _CLOSED)
        return
    own, real = ctx.site.prefix.resolve(), path.resolve()
    if own.is_relative_to(real) or real.is_relative_to(own):
        text = f"{path} and the site's own prefix are one folder, or one lies in the other: {real}, {own}"
        yield SiteFact("upstream", "error", text, "name another site's prefix, which lies beside it")
        return
    if back := _on_this_prefix(ctx, prefix):
        text = f"{path} stands on installs of this prefix: {', '.join(back[:3])}"
        yield SiteFact("upstream", "error", text, "only one of two prefixes can be the other's upstream")
        return
    text = f"{path}, {counted(len(here), 'installs')}, used where they are"
    yield SiteFact("upstream", "ok", f"{text}; on {_file_system(path)}")
    locked, made, same = _compared(ctx, prefix)
    if made and not same:
        hint = "cpu_level, the operating system and its C library must be those of the upstream; nothing of it is used"
        yield SiteFact("upstream", "warning", f"{and_more(made, 3)}: the same lock is another install there", hint)
    if locked:
        text = f"{and_more(locked, 3)}: the upstream has published another lock, so this site builds its own"
        yield SiteFact(
            "upstream", "warning", text, "name the upstream's catalog first in `catalogs`, if it shall be used"
        )


_CLOSED = "this user must be able to enter and read it"


def _on_this_prefix(ctx: Context, upstream: Prefix) -> list[str]:
    """Return the installs of this prefix that the upstream's current generation names."""
    with suppress(EnvmgrError):
        if current := read_current(upstream):
            return [path for path in current.installs if path.startswith(f"{ctx.site.prefix}/")]
    return []


def _compared(ctx: Context, upstream: Prefix) -> tuple[list[str], list[str], list[str]]:
    """Return the entries that the upstream has published by another lock than this site's; those by the same lock, but
    as another install than this site would use there; and those that are the same.
    """
    found: tuple[list[str], list[str], list[str]] = ([], [], [])
    with suppress(EnvmgrError):  # its own administrators hear of a damage
        current = read_current(upstream)
        there = ctx.site.model_copy(update={"prefix": upstream.root, "upstream": None})
        for item in _published(replace(ctx, site=there), current) if current is not None else ():
            published = current.entries[str(item.entry)] if current is not None else None
            if published is not None:
                kind = 0 if published.lock != item.lock.sha256 else 1 if published.digest != item.install.digest else 2
                found[kind].append(str(item.entry))
    return found


def _downstream(site: Site) -> Iterator[SiteFact]:
    for pattern in site.downstream:
        found, unknown = downstream_prefixes(pattern)
        for why in unknown:
            yield SiteFact("downstream", "warning", why, "gc removes nothing as long as this is so")
        if not unknown:
            of = "1 prefix uses" if len(found) == 1 else f"{len(found)} prefixes use"
            kept = f"{pattern}: gc keeps what {of} of this one"
            yield SiteFact("downstream", "ok", kept)


def _build_user(site: Site) -> Iterator[SiteFact]:
    if site.build_user is None:
        yield SiteFact("build_user", "ok", "none: installs belong to the user that runs envmgr")
        return
    account = find_account(site.build_user)
    if account is None:
        hint = f"useradd --system {site.build_user}"
        yield SiteFact("build_user", "error", f"{site.build_user} does not exist here", hint)
        return
    foreign = site.prefix.exists() and site.prefix.stat().st_uid != account.uid
    of_backends = (path for backend in all_backends() for path in backend.reads(site))
    reads = [*site.read_by_verbs, *of_backends, *_in_catalogs(site)]
    faults = access_faults(account, reads, lambda: () if foreign else write_faults(site, account))
    faults = None if faults is None else (*faults, *group_faults(site, account))
    known = f"{site.build_user} (uid {account.uid})"
    if faults is None:
        text = f"{known}; only root and {site.build_user} see what it can run, read and write"
        yield SiteFact("build_user", "ok", text)
    elif not faults:
        yield SiteFact("build_user", "ok", f"{known}: it can run envmgr, read the site and write the prefix")
    for fault in faults or ():
        yield SiteFact("build_user", "error", f"{fault.reference}: {fault.message}", fault.hint)
    if foreign:
        text = f"{site.prefix} does not belong to {site.build_user}"
        yield SiteFact("prefix", "error", text, give_place(site.build_user, site.prefix))


def _in_catalogs(site: Site) -> Iterator[Path]:
    """Yield all that a build may read in the site's own catalogs."""
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
        lmod = ctx.find_lmod()
        yield SiteFact("lmod", "ok", f"Lmod {lmod.version()} in {lmod.package}")
    except EnvmgrError as error:
        yield SiteFact("lmod", "error", error.message, error.hint)


def _slurm(site: Site) -> Iterator[SiteFact]:
    unset = "TaskProlog unsets SLURM_EXPORT_ENV: srun in a job with --export=NONE passes on what modules set"
    stays = "SLURM_EXPORT_ENV stays: srun in a job with --export=NONE passes nothing on, and modules say so"
    if site.slurm.heal_export is not None:
        yield SiteFact("slurm.heal_export", "ok", unset if site.slurm.heal_export else stays)


def _nodes(site: Site) -> Iterator[SiteFact]:
    if not site.groups and not site.login_nodes:
        yield SiteFact("groups", "ok", "none: this machine only")
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
    system = f"{target.arch}, {target.os_id} {target.os_major}, glibc {target.glibc}"
    yield SiteFact("cpu_level", "ok", f"{site.cpu_level} on {system}: the target of every digest")
    kept = f"{p.keep_generations} generations and {p.keep_days:g} days are kept; umask {p.umask}"
    yield SiteFact("policies", "ok", kept)
    yield SiteFact("policies.driver_gate", "ok", f"{p.driver_gate} where an NVIDIA driver is too old for a module")
    python = "Python sees ~/.local" if p.user_site else "~/.local is kept out of Python (PYTHONNOUSERSITE)"
    yield SiteFact("policies.user_site", "ok", python)
    if p.licences:
        yield SiteFact("policies.licences", "ok", f"acknowledged: {', '.join(p.licences)}")
    if p.group:
        try:
            group_id(p.group)
            yield SiteFact("policies.group", "ok", p.group)
        except EnvmgrError as error:
            yield SiteFact("policies.group", "error", error.message, f"groupadd {p.group}")


def _file_system(path: Path) -> str:
    """Return `ext4` or `nfs4 fs1:/export`."""
    kind, source, _ = mount_of(path)
    return f"{kind} {source}" if ":" in source else kind


_FIELD = "upgrade"


def explain_upgrade(ctx: Context) -> Iterator[SiteFact]:
    """Yield what this envmgr would do differently with what is published.

    That is modules that would be written again, installs that keep an older layout, and locks that are the same and
    would give another install. It reads only; entries whose recipe or lock cannot be used are left out.
    """
    try:
        current = read_current(ctx.prefix)
    except (EnvmgrError, OSError) as error:
        yield SiteFact(_FIELD, "error", f"the current generation cannot be read: {error}")
        return
    if current is None or not current.entries:
        return
    entries = list(_published(ctx, current))
    facts = [*_modules(ctx, current, entries), *_layouts(entries), *_renamed(current, entries)]
    by = f"generation {current.number} (envmgr {current.tools.get('envmgr', 'unknown')})"
    yield from facts or [SiteFact(_FIELD, "ok", f"{by} is as this envmgr makes it")]


def _published(ctx: Context, current: GenerationRecord) -> Iterator[ResolvedEntry]:
    target = read_target(ctx.site.cpu_level)
    for name in sorted(current.entries):
        try:
            yield resolve_entry(ctx, ctx.catalog.find(parse_entry(name)), target)
        except EnvmgrError:
            continue  # `envmgr list` reports it


def _modules(ctx: Context, current: GenerationRecord, entries: Sequence[ResolvedEntry]) -> Iterator[SiteFact]:
    plan, _ = plan_for(ctx, entries)
    if plan.rerender:
        count = len(current.entries)
        modules = "its module" if count == 1 else f"all {count} modules"
        others = f"templates or policies are others than those of generation {current.number}"
        hint = "installs stay, and shells that run keep their modules; `envmgr publish` does it now"
        yield SiteFact(_FIELD, "warning", f"the next publish writes {modules} again: {others}", hint)
    elif again := [str(s.candidate.entry) for s in plan.steps if s.publish == "module"]:
        text = f"a publish would write another module of {', '.join(again)}, on the same install"
        yield SiteFact(_FIELD, "warning", text, "`envmgr publish` does it now")


def _layouts(entries: Sequence[ResolvedEntry]) -> Iterator[SiteFact]:
    for backend in {item.lock.backend.name: item.lock.backend for item in entries}.values():
        older = [str(item.entry) for item in entries if item.lock.backend.name == backend.name and item.of_older_layout]
        if older:
            stay = f"installs of an older layout of {backend.name} stay in use until their lock changes"
            yield SiteFact(_FIELD, "ok", f"{', '.join(older)}: {stay}")


def _renamed(current: GenerationRecord, entries: Sequence[ResolvedEntry]) -> Iterator[SiteFact]:
    for item in entries:
        published = current.entries[str(item.entry)]
        if published.lock == item.lock.sha256 and published.path != item.install.relative:
            paths = f"{item.install.relative}, published is {published.path}"
            hint = "cpu_level, prefix and the operating system are part of it: did one of them change?"
            yield SiteFact(_FIELD, "warning", f"{item.entry}: the same lock is another install here: {paths}", hint)
