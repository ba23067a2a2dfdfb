"""A change of a user's environment: solve, make the install, let the links name it, keep what it stands on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from envmgr.catalog.names import MODULE_NAME
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.spec import ModuleSpec
from envmgr.people.base import BaseEntry, ask_base
from envmgr.people.environments import all_installs, amount, outdated, require_environment
from envmgr.people.install import install_of, make_install
from envmgr.people.kernel import has_ipykernel, is_own, kernel_file, remove_kernel, user_kernel, write_kernel
from envmgr.people.lock import UserLock, lock_of
from envmgr.people.module import module_text
from envmgr.people.places import UserPlaces, require_own, user_places
from envmgr.people.solve import Wish, may_break, solve
from envmgr.people.wishes import unchanged
from envmgr.publish.records import GenerationRecord, published_spec, read_records, read_specs
from envmgr.report import Lines, Result
from envmgr.steps import Context, published_record, require_published
from envmgr.store.manifest import remove_install
from envmgr.store.prefix import Install, Prefix
from envmgr.store.user_holds import write_holds
from envmgr.system.files import atomic_write, clear_temporaries, explain_os_error
from envmgr.system.locks import file_lock
from envmgr.wording import inodes_text, size_text


@dataclass(frozen=True, slots=True)
class PackageChange:
    """A package that came (`before` is empty), went (`after` is empty) or changed."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class UserResult(Result):
    """An environment after a change. `path` is its folder, `content` the sha256 of its packages, equal for all users.

    `inodes` and `size` (bytes) are those of the environment, None if nothing was built; `inodes_before` and
    `size_before` those of all environments of this user before. `breaks` are packages of the entry that may break.
    `use` is the folder that MODULEPATH of this shell lacks, empty if it has it. The installs that it stands on are kept
    until the day `held`; `not_held` is why that could not be said. `no_kernel` is the kernel that was removed, because
    nothing has ipykernel any more.
    """

    schema: ClassVar[str] = "envmgr.user/1"
    name: str
    on: str
    module: str
    path: str
    content: str
    requirements: tuple[str, ...]
    changes: tuple[PackageChange, ...]
    editable: tuple[str, ...]
    breaks: tuple[str, ...]
    inodes: int | None
    size: int | None
    inodes_before: int
    size_before: int
    use: str
    held: str
    not_held: str
    no_kernel: str
    dry_run: bool

    def lines(self) -> Lines:
        for each in self.changes:
            sign = "~" if each.before and each.after else "+" if each.after else "-"
            versions = " -> ".join(version for version in (each.before, each.after) if version)
            yield f"  {sign} {each.name} {versions}"
        for folder in self.editable:
            yield f"  {folder}, as it is: no lock holds it"
        for line in self.breaks:
            yield f"may break: {line}"
        if self.inodes is None or self.size is None:
            yield f"nothing was changed: {self.module} would stand on {self.on}"
            return
        yield f"{self.module} stands on {self.on}: {inodes_text(self.inodes, self.size)} in {self.path}"
        if self.no_kernel:
            yield f"removed the kernel {self.no_kernel}: nothing has ipykernel any more"
        if self.held:
            yield f"the cluster keeps what it stands on until {self.held}, and longer when you change it"
        else:
            yield f"the cluster may remove what it stands on some time after {self.on} changes: {self.not_held}"
        yield f"your environments had {inodes_text(self.inodes_before, self.size_before)} before"
        yield f"`module load {self.module}` loads it{f'; in this shell `module use {self.use}` comes first' * bool(self.use)}"


def change_environment(
    ctx: Context,
    name: str,
    change: Callable[[UserLock], Wish],
    *,
    rebase: bool = False,
    jobs: int = 0,
    dry_run: bool = False,
) -> UserResult:
    """Solve an environment again for what `change` makes of its lock; on the entry's current install with `rebase`.

    The former install stays for shells and jobs that have it loaded, for `policies.keep_days`.

    Raises:
        InputError: `no-environment`, `base-differs`, `clash`, and more.
    """
    places = user_places(ctx.environ)
    require_environment(places, name)  # before a lock is made
    with changing(ctx, places, name, dry_run=dry_run):
        former = require_environment(places, name)
        before = lock_of(former)
        record = published_record(ctx)
        base = ask_for(ctx, before.on, record) if rebase else base_of(ctx, before, record, name)
        kept = {} if change is unchanged or rebase else before.versions
        lock = solve(change(before), base, partial(specs_of, ctx, record), ctx.site, ctx.runner, ctx.reporter, kept)
        place = (places.link(name), former.prefix)
        result = make_environment(ctx, places, name, lock, base, place, before.versions, jobs=jobs, dry_run=dry_run)
        if not dry_run:
            if former.path != Path(result.path):
                os.utime(former.manifest)  # it was left now: shells and jobs have it loaded
            for each in outdated(require_environment(places, name), ctx.site.policies.keep_days):
                with file_lock(each.lock, check=ctx.runner.raise_if_cancelled):
                    remove_install(each)
        return result


_ELSEWHERE = "`--at FOLDER` puts an environment elsewhere, such as on a scratch file system"
_ASK = "ask the administrators of this cluster for"


# What a user can do, where the error would speak to an administrator.
_HINTS = {
    "no-network": f"try it on a login node; or {_ASK} a mirror of the index (`backends.wheels.indexes` in site.yaml)",
    "not-found": f"choose the packages again, with what the index has now; or {_ASK} a mirror that still has the file",
    "download-stalled": f"run the same command again; or {_ASK} a mirror of the index",
    "download-refused": f"the server wants a login, or forbids it: {_ASK} a mirror of the index",
    "lock-foreign": "nothing was installed; take it only if you know its author, and then choose the packages by name: "
    "`envmgr user create NAME --on ENTRY PACKAGE`",
    "disk-full": f"`envmgr user list` shows what your environments take; {_ELSEWHERE}",
    "not-writable": f"your environments lie below your home; {_ELSEWHERE}",
    "mount-lost": f"is your home there? {_ELSEWHERE}",
}


@contextmanager
def changing(ctx: Context, places: UserPlaces, name: str, *, dry_run: bool) -> Iterator[None]:
    """Hold the lock of an environment; a dry run makes no folder. Raise as `explained`."""
    with explained(), nullcontext() if dry_run else _locked(ctx, places, name):
        yield


@contextmanager
def explained() -> Iterator[None]:
    """Raise errors of the storage and of indexes with a hint of what a user can do."""
    try:
        yield
    except EnvmgrError as error:
        error.hint = _HINTS.get(error.reference, error.hint)
        raise


@contextmanager
def _locked(ctx: Context, places: UserPlaces, name: str) -> Iterator[None]:

    def waiting(holder: str) -> None:
        ctx.reporter.say(f"{name}: waiting for {holder}, which changes it")

    os.umask(os.umask(0o022) | 0o022)  # else the group of a shared folder could change what runs as this user
    with explain_os_error(places.folder):
        places.prefix.locks.mkdir(parents=True, exist_ok=True)
    with file_lock(places.lock(name), on_wait=waiting, check=ctx.runner.raise_if_cancelled):
        clear_temporaries(places.prefix.locks)
        yield


def make_environment(
    ctx: Context,
    places: UserPlaces,
    name: str,
    lock: UserLock,
    base: BaseEntry,
    place: tuple[Path, Prefix],
    before: Mapping[str, str],
    *,
    jobs: int,
    dry_run: bool,
) -> UserResult:
    """Make the install and its module, then let the links name it: what fails before leaves all as it was."""
    link, prefix = place
    install = install_of(name, lock, prefix, ctx.site)
    inodes_before, size_before = amount(all_installs(places))
    held = not_held = no_kernel = ""
    if not dry_run:
        jobs = jobs or len(os.sched_getaffinity(0))
        if prefix != places.prefix:  # in a home, a user may have put a link there
            with explain_os_error(prefix.root):
                require_own(prefix.root, make=True)
        try:
            make_install(install, lock, base, ctx.site, ctx.runner, ctx.reporter, jobs=jobs)
        except EnvmgrError as error:
            if error.reference == "disk-full":
                taken = f"your environments take {inodes_before} inodes, {size_text(size_before)}"
                if lock.wheels.size is not None:  # not each index says it
                    taken += f"; the packages of this one have {size_text(lock.wheels.size)} as wheels"
                error.context = (*error.context, taken)
            raise
        # First the hold, then the links: a kill between both leaves no environment that a gc could break.
        with holding(ctx.site, places, install) as (held, not_held), explain_os_error(places.module(name)):
            places.module(name).parent.mkdir(parents=True, exist_ok=True)
            atomic_write(places.module(name), module_text(install, lock, base, ctx.site, places.reported(name)))
            for each in {link, places.link(name)}:
                _point(each, install.path)
        if is_own(kernel := kernel_file(ctx.environ, name)):
            if has_ipykernel(lock, base):
                write_kernel(kernel, user_kernel(name, places.link(name), install, lock, base, ctx.site))
            elif remove_kernel(kernel):
                no_kernel = str(kernel)
    inodes, size = (None, None) if dry_run else amount([install])
    return UserResult(
        name=name,
        on=lock.on,
        module=f"{MODULE_NAME}/{name}",
        path=str(install.path),
        content=lock.content,
        requirements=lock.requirements,
        changes=tuple(_changes(before, lock.versions)),
        editable=lock.editable,
        breaks=tuple(may_break(lock, base)),
        inodes=inodes,
        size=size,
        inodes_before=inodes_before,
        size_before=size_before,
        use="" if str(places.modules) in ctx.environ.get("MODULEPATH", "").split(":") else str(places.modules),
        held=held,
        not_held=not_held,
        no_kernel=no_kernel,
        dry_run=dry_run,
    )


@contextmanager
def holding(site: Site, places: UserPlaces, *more: Install) -> Iterator[tuple[str, str]]:
    """Let the site keep what this user's environments stand on, and `more`; yield as `write_holds` returns.

    No other verb of the user does the same meanwhile: what this one is about to name is in the other's list, too.
    """
    with file_lock(places.prefix.locks / ".holds.lock"):
        yield write_holds(site, [(install.entry.version, install) for install in (*all_installs(places), *more)])


def _point(link: Path, target: Path) -> None:
    """Let a link name `target`, by one rename."""
    beside = link.with_name(f".{link.name}.new")  # under the lock: what a kill has left is replaced
    beside.unlink(missing_ok=True)
    beside.symlink_to(target)
    beside.replace(link)


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[PackageChange]:
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield PackageChange(name, before.get(name, ""), after.get(name, ""))


def ask_for(ctx: Context, on: str, record: GenerationRecord) -> BaseEntry:
    """Return what the published entry has. Raise InputError `not-published`."""
    require_published([on], record)
    return ask_base(on, record, ctx.prefix, ctx.runner)


def base_of(ctx: Context, lock: UserLock, record: GenerationRecord, name: str = "") -> BaseEntry:
    """Return the base that a lock was made for. Raise as `generation_of`."""
    return ask_base(lock.on, generation_of(ctx, lock, record, name), ctx.prefix, ctx.runner)


def generation_of(ctx: Context, lock: UserLock, record: GenerationRecord, name: str = "") -> GenerationRecord:
    """Return the newest generation that has the install which a lock was made for; `record` is the current one.

    Raise InputError `base-differs` if none has; `not-published`.
    """
    records, _ = read_records(ctx.prefix)
    for each in (record, *(records[number] for number in sorted(records, reverse=True))):
        if (entry := each.entries.get(lock.on)) is not None and entry.digest == lock.base:
            return each
    require_published([lock.on], record)
    again = f"`envmgr user update {name} --rebase`" if name else f"`envmgr user create NAME --on {lock.on} PACKAGE…`"
    message = f"{lock.on} has another install now than the one that the packages were chosen for"
    now = f"generation {record.number} has {record.entries[lock.on].digest[:8]}"
    context = [f"chosen for {lock.base[:8]}", now]
    raise InputError("base-differs", message, context=context, hint=f"{again} chooses them again")


def specs_of(ctx: Context, record: GenerationRecord) -> dict[str, ModuleSpec]:
    """Return the published specs of a generation."""
    return {name: published_spec(raw).spec for name, raw in read_specs(ctx.prefix, record.number).items()}
