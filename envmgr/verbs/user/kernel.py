"""`envmgr user kernel`: an environment as a kernel that Jupyter offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from envmgr.errors import InputError
from envmgr.people.base import ask_base
from envmgr.people.environments import require_environment
from envmgr.people.kernel import has_ipykernel, is_own, kernel_file, remove_kernel, user_kernel, write_kernel
from envmgr.people.lock import lock_of
from envmgr.people.places import user_places
from envmgr.report import Lines, Result
from envmgr.steps import Context, published_record
from envmgr.steps.user import generation_of
from envmgr.verbs import DryRun, needs, option
from envmgr.verbs.user import Name


@dataclass(frozen=True, slots=True)
class UserKernelResult(Result):
    """A kernel that was written, or `removed`; `path` is its file. Without `display_name` there was none to remove."""

    schema: ClassVar[str] = "envmgr.user-kernel/1"
    name: str
    path: str
    display_name: str
    removed: bool
    dry_run: bool

    def lines(self) -> Lines:
        if self.removed and not self.display_name:
            yield f"there is no kernel of {self.name} that envmgr wrote"
            return
        would, did = ("would remove", "removed") if self.removed else ("would write", "wrote")
        yield f"{would if self.dry_run else did} {self.path}: `{self.display_name}`"


@needs("prefix")
def kernel(
    ctx: Context, name: Name, remove: Annotated[bool, option("Take the kernel away.")] = False, dry_run: DryRun = False
) -> UserKernelResult:
    """Let Jupyter offer an environment as a kernel."""
    places = user_places(ctx.environ)
    install = require_environment(places, name)
    file = kernel_file(ctx.environ, name)
    if remove:
        there = is_own(file) if dry_run else remove_kernel(file)
        return UserKernelResult(name, str(file), name if there else "", True, dry_run)
    lock = lock_of(install)
    record = generation_of(ctx, lock, published_record(ctx), name)
    base = ask_base(lock.on, record, ctx.prefix, ctx.runner)
    if file.exists() and not is_own(file):
        hint = "`jupyter kernelspec remove` takes it away"
        raise InputError("name-taken", f"{file} is there, and envmgr did not write it", hint=hint)
    if not has_ipykernel(lock, base):
        message = f"neither {name} nor {lock.on} has ipykernel, which Jupyter talks to"
        hint = f"`envmgr user add {name} ipykernel`, then the same command again"
        raise InputError("no-ipykernel", message, hint=hint)
    spec = user_kernel(name, places.link(name), install, lock, base, ctx.site)
    if not dry_run:
        write_kernel(file, spec)
    return UserKernelResult(name, str(file), spec["display_name"], False, dry_run)
