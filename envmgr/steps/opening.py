"""Open the site for a verb: as much of the prefix as the verb needs, and the user who may write it."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import Literal

from envmgr.catalog.site import Site
from envmgr.report import Reporter
from envmgr.steps import Context
from envmgr.store.away import require_answer, require_mounted
from envmgr.store.place import require_kinds, require_place
from envmgr.store.prefix import Prefix
from envmgr.system.run import Runner

Needs = Literal["nothing", "prefix", "mount", "write"]
"""What a verb needs of the prefix: nothing, so that it also works where the prefix does not answer; that it answers, also
where it was moved or is not mounted here; that it is mounted at its own place; to write there, as the build user.
"""


def open_context(site: Site, needs: Needs, reporter: Reporter) -> Context:
    """Look at the prefix, and become the build user if it is written. Signals stop the processes of the verb, then the
    verb.

    Raises EnvmgrError, see `drop_to`, `require_place`, `require_answer`, `require_mounted`.
    """
    if site.backends:
        from envmgr.backends import require_settings

        require_settings(site)
    ctx = Context(site, Runner(), reporter, dict(os.environ))
    if needs == "prefix":
        require_answer(site.prefix)
    elif needs != "nothing":
        require_mount(site)
    if needs == "write":
        ctx = to_write(ctx)
    stop_by_signals(ctx.runner)
    if needs in ("mount", "write"):
        require_place(ctx.prefix)
    return ctx


def require_mount(site: Site) -> None:
    """Raise EnvmgrError where the prefix does not answer, is not mounted, or has something else in envmgr's places."""
    require_answer(site.prefix)
    require_mounted(site)
    require_kinds(Prefix(site.prefix))


def to_write(ctx: Context) -> Context:
    """Become the build user, and return the context with the signer of flips that root started before."""
    site, signer = ctx.site, None
    if site.signing is not None and site.build_user is not None and os.geteuid() == 0:
        from envmgr.publish.signature import start_root_signer

        # It starts before the user changes: the build user need not be able to read the key.
        signer = start_root_signer(site.signing, ctx.runner)
    become_build_user(site)
    if signer is not None:
        from envmgr.system.users import refuse_tracing

        # Another process of the build user could else use the signer through this process.
        refuse_tracing()
    return replace(ctx, root_signer=signer)


def become_build_user(site: Site) -> None:
    """Become the build user, who writes the prefix, and clear what killed runs of that user left beside their work.

    The verb clears what they left of it. Raises EnvmgrError, see `drop_to`.
    """
    from envmgr.store.jobtable import remove_dead_holds
    from envmgr.system.scratch import clear_dead_scratch
    from envmgr.system.users import drop_to

    # First, because `drop_to` may make the prefix.
    os.umask(site.policies.mask)
    drop_to(site.build_user, site.prefix, reads=site.read_by_verbs)
    clear_dead_scratch()
    if site.prefix.is_dir():
        remove_dead_holds(Prefix(site.prefix))


_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the last one comes from a dropped ssh session


def stop_by_signals(runner: Runner) -> None:
    """Stop the work at the first signal, and ignore further signals during the cleanup."""

    def stop(_signal: int, _frame: object) -> None:
        for each in _STOPPING:
            signal.signal(each, signal.SIG_IGN)
        runner.cancel.set()
        raise KeyboardInterrupt

    for number in _STOPPING:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, stop)
