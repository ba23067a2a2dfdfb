"""Verbs: explicit arguments in, a frozen result out. A module is one verb, or a few about one thing; this one is what
all verbs get.

`resolved`, `lock_checks`, `gate`, `build_run` and `in_use` are steps of verbs.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from envmgr.catalog.names import nearest
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError, Interrupted
from envmgr.report import LoggedReporter, Reporter
from envmgr.store.away import nothing_published
from envmgr.store.prefix import Prefix
from envmgr.system.files import disk_error
from envmgr.system.run import Runner
from envmgr.wording import did_you_mean

if TYPE_CHECKING:
    from envmgr.catalog.entries import Catalog
    from envmgr.modules.lmod import Lmod
    from envmgr.probe.model import Way
    from envmgr.publish.records import GenerationRecord
    from envmgr.publish.signature import Signer


@dataclass(frozen=True, slots=True)
class Context:
    """The things that a verb works with; made once, by the command line or a test."""

    site: Site
    runner: Runner
    reporter: Reporter
    environ: Mapping[str, str]
    root_signer: Signer | None = None

    @property
    def signer(self) -> Signer | None:
        """Return the signer of flips; None where the site signs none. It is root where root started this process for
        the build user.
        """
        if self.site.signing is None or self.root_signer is not None:
            return self.root_signer
        from envmgr.publish.signature import KeySigner

        return KeySigner(self.site.signing, self.runner)

    def way(self, asked: Way | None = None) -> Way:
        """Return how nodes are reached: as `asked`, else as the site says, by ssh where it says both."""
        return asked or ("slurm" if self.site.transport.via == "slurm" else "ssh")

    @property
    def prefix(self) -> Prefix:
        return Prefix(self.site.prefix)

    def find_lmod(self) -> Lmod:
        """Return the site's Lmod. Raises EnvmgrError, see `envmgr.modules.lmod.find_lmod`."""
        from envmgr.modules.lmod import find_lmod

        return find_lmod(self.site.lmod.dir, self.environ, runner=self.runner)

    def allowing(self, *, network: bool) -> Context:
        """Return a context whose site lets builds use a network where envmgr cannot block it, if `network`."""
        if not network:
            return self
        policies = self.site.policies.model_copy(update={"allow_network": True})
        return replace(self, site=self.site.model_copy(update={"policies": policies}))

    @property
    def catalog(self) -> Catalog:
        from envmgr.catalog.entries import open_catalog

        return open_catalog(self.site)


@contextmanager
def logged(ctx: Context, verb: str) -> Iterator[tuple[Context, Path]]:
    """Yield the same context, which also writes to a log under `<prefix>/var/log`; an error that leaves names the
    log.
    """
    path = ctx.prefix.logs / f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{verb}-{os.getpid()}.log"
    reporter = LoggedReporter(ctx.reporter, path)
    try:
        yield replace(ctx, reporter=reporter), path
    except EnvmgrError as error:
        _add_what_is_left(error, verb)
        _name_log(error, error, reporter)
        raise
    except OSError as error:
        explained = disk_error(error, str(error.filename or "a file"))
        if explained is None:
            reporter.log("".join(traceback.format_exception(error)))
            raise
        _name_log(explained, error, reporter)
        raise explained from error
    except KeyboardInterrupt:
        reporter.log("stopped by a signal")
        stopped = Interrupted(log=str(path) if path.exists() else "")
        _add_what_is_left(stopped, verb)
        raise stopped from None
    except BaseException as error:
        reporter.log("".join(traceback.format_exception(error)))
        raise
    finally:
        reporter.close()


_LEFT = {"fetch": "files that arrived whole are kept, and the next run fetches the others"}


def _add_what_is_left(error: EnvmgrError, verb: str) -> None:
    """Say what an interruption leaves in the prefix, unless the error says more."""
    if error.message == Interrupted().message:
        error.message += f"; {_LEFT.get(verb, 'what is published is whole, and the next run cleans up')}"


def _name_log(explained: EnvmgrError, error: Exception, reporter: LoggedReporter) -> None:
    reporter.log(explained.render())
    reporter.log("".join(traceback.format_exception(error)))
    with suppress(OSError):
        if not explained.log and reporter.path.exists() and reporter.path.stat().st_size:
            explained.log = str(reporter.path)


def require_current_if_ever(ctx: Context) -> None:
    """Raise EnvmgrError `current-damaged` if `current` is damaged or lost.

    It is lost if it does not exist although a generation was current once.
    """
    from envmgr.publish.records import current_number, way_back

    if current_number(ctx.prefix) is not None:
        return
    from envmgr.publish.flips import flips

    if flips(ctx.prefix):
        message = f"there is no {ctx.prefix.current}, though there was one"
        raise EnvmgrError("current-damaged", message, hint=way_back(ctx.prefix))


def trusted_owners(ctx: Context) -> frozenset[int] | None:
    """Return to whom a prefix may belong: its folder's owner and the build user; None where a group shares it."""
    if ctx.site.policies.group is not None:
        return None
    from envmgr.system.users import find_account

    found = {ctx.prefix.root.stat().st_uid}
    if ctx.site.build_user is not None and (account := find_account(ctx.site.build_user)) is not None:
        found.add(account.uid)
    return frozenset(found)


def published_record(ctx: Context, generation: int | None = None) -> GenerationRecord:
    """Return the current generation, or this one.

    Raises EnvmgrError `nothing-published` before the first publish, `prefix-away`; as `read_record`.
    """
    from envmgr.publish.records import new_beginning, read_current, read_record

    if generation is not None:
        return read_record(ctx.prefix, generation)
    current = read_current(ctx.prefix)
    require_current_if_ever(ctx)
    if current is None:
        raise nothing_published(ctx.site, ctx.environ, new_beginning(ctx.prefix, "`envmgr build ENTRY`"))
    return current


def known_record(ctx: Context) -> GenerationRecord | None:
    """Return the current generation; None where it cannot be read, for a verb that goes on without it."""
    try:
        return published_record(ctx)
    except EnvmgrError:
        return None


def require_published(names: Sequence[str], current: GenerationRecord, hint: str = "") -> None:
    """Raise InputError `not-published`, with this hint or the nearest names, for the first name that is not in the
    generation.
    """
    for name in names:
        if name not in current.entries:
            context = f"generation {current.number}"
            hint = hint or did_you_mean(nearest(name, current.entries), "`envmgr list` shows what is")
            raise InputError("not-published", f"{name} is not published", context=context, hint=hint)


def choose_published(
    ctx: Context, names: Sequence[str], generation: int | None = None
) -> tuple[GenerationRecord, list[str]]:
    """Return the current generation, or this one, and the named entries of it, or all entries without names. Raises as
    `published_record` and `require_published`.
    """
    current = published_record(ctx, generation)
    require_published(names, current)
    return current, list(names) or sorted(current.entries)
