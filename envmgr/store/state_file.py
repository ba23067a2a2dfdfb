"""Small files below `<prefix>/var` that a verb writes which asks nodes: what it saw, for later runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.system.run import run_detached
from envmgr.system.shelltext import script_text
from envmgr.system.users import build_account, command_as

SECONDS = 20.0
"""How long the prefix may take to read and write one small file."""

_READ = 'if [ -e "$1" ]; then exec cat "$1"; fi'


def change_state(
    path: Path,
    change: Callable[[str], str],
    site: Site,
    *,
    seconds: float = SECONDS,
    check: Callable[[], None] = lambda: None,
) -> str:
    """Replace the file by what `change` makes of its text, as the build user if this is root; return why that failed,
    or "".

    The text is empty where there is no file. This never raises, and ends within `seconds` (at most 20), even if the
    prefix hangs; `check` is called in between and may raise. An EnvmgrError of `change` is a reason.
    """
    try:
        become = writing_as(site)
    except EnvmgrError as error:
        return error.message
    seconds = min(seconds, SECONDS)
    end = time.monotonic() + seconds
    # A process of its own, because a read on a hung mount cannot be given up.
    before = run_detached([*become, "/bin/sh", "-c", _READ, "sh", str(path)], seconds=seconds, check=check)
    if before.returncode is None:
        return f"{site.prefix} does not answer"
    try:
        text = change(before.output)
    except EnvmgrError as error:
        return error.message
    script = script_text(__file__, "write.sh")
    argv = [*become, "/bin/sh", "-c", script, "sh", str(path.parent), path.name, site.policies.umask]
    done = run_detached(argv, seconds=end - time.monotonic(), stdin=text, check=check)
    if done.returncode is None:
        return f"{site.prefix} does not answer"
    said = [line.strip() for line in done.error.splitlines() if line.strip()]
    return "" if done.returncode == 0 else (said or [f"exit status {done.returncode}"])[0]


def writing_as(site: Site) -> tuple[str, ...]:
    """Return the words before a command that writes the prefix: root's is the build user's.

    Raises:
        InputError: `unknown-user` if there is no such user.
    """
    if site.build_user is None or os.geteuid() != 0:
        return ()
    return command_as(build_account(site.build_user))
