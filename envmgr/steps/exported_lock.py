"""The lock of an entry as a file of another tool."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envmgr.backends import get_backend
from envmgr.errors import InputError
from envmgr.exchange import Left, writers
from envmgr.publish.records import read_current
from envmgr.report import Lines, Result, Verbatim
from envmgr.steps import Context
from envmgr.steps.entry_faults import reading_entry
from envmgr.system.files import atomic_write
from envmgr.wording import counted, shortened


@dataclass(frozen=True, slots=True)
class ExportedLock(Result):
    """An entry's lock as a file of another tool. `published` tells whether what is published was built from this lock.

    `text` is the whole file; `left` is what of the lock it does not hold; `output` is where it is, or would be.
    """

    schema: ClassVar[str] = "envmgr.export-lock/1"
    to: str
    entry: str
    lock: str
    published: bool
    packages: int
    left: tuple[Left, ...]
    output: Path | None
    dry_run: bool
    text: str

    def lines(self) -> Lines:
        if self.output is None:
            yield Verbatim(self.text)
        else:
            done = "would write" if self.dry_run else "wrote"
            yield f"{done} {self.output}: {counted(self.packages, 'packages')} of {self.entry} for {self.to}"


def export_lock(
    ctx: Context,
    names: list[str],
    *,
    to: str,
    of_cluster: bool = False,
    output: Path | None = None,
    dry_run: bool = False,
) -> ExportedLock:
    """Write the lock of one entry for the tool `to`.

    Raises:
        InputError: `unknown-entry`, `entry-missing`, `export-impossible`; EnvmgrError: as its lock; the file cannot be
            written.
    """
    if of_cluster:
        message = f"--system and --nodes are of a cluster, and a file for {to} is of one entry"
        raise InputError("export-impossible", message, hint="leave them out")
    if len(names) != 1:
        raise InputError("entry-missing", f"a file for {to} is of one entry", hint="name it as name/version")
    from envmgr.exchange.exact import exact_of

    found = ctx.catalog.find(ctx.catalog.parse(names[0]))
    recipe = found.recipe()
    with reading_entry(found.entry):
        lock = get_backend(recipe.backend).load_lock(found.entry, recipe, found.folder, ctx.site)
    current = read_current(ctx.prefix)
    row = None if current is None else current.entries.get(str(found.entry))
    if row is not None and row.lock != lock.sha256:
        ctx.reporter.say(f"{found.entry}: what is published was built from another lock than the one in {found.folder}")
    exact = exact_of(lock, ctx.site, ctx.runner)
    text, left = writers()[to].write(exact)
    dropped = {row.text for row in left}
    packages = [*(exact.conda.packages if exact.conda else ()), *exact.wheels]
    for line in shortened([f"not in it: {row.text}: {row.why}" for row in left]):
        ctx.reporter.say(line)
    if output is not None and not dry_run:
        atomic_write(output, text)
    return ExportedLock(
        to,
        str(found.entry),
        lock.sha256,
        row is not None and row.lock == lock.sha256,
        sum(f"{each.name} {each.version}" not in dropped for each in packages),
        tuple(left),
        output,
        dry_run,
        text,
    )
