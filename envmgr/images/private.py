"""Images for one command of an ordinary user, who cannot mount for all: by squashfuse, in namespaces of the command's own.

Source: user_namespaces(7), mount_namespaces(7), squashfuse(1). Tried: squashfuse outlives the command unless the kernel
is asked to kill it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn

from envmgr.errors import EnvmgrError
from envmgr.images.node import WantedImage
from envmgr.system.run import Runner
from envmgr.system.sandbox import mounting_script, with_own_mounts


def run_privately(wanted: Sequence[WantedImage], command: Sequence[str], runner: Runner) -> NoReturn:
    """Become the command, which sees the images over their installs. No other process sees them.

    Raises EnvmgrError `no-namespaces`; what is wrong with squashfuse is said on stderr, with exit code 3.
    """
    words, said = with_own_mounts(runner)
    if words is None:
        raise EnvmgrError(
            "no-namespaces",
            "this host does not let you mount anything for yourself",
            context=said,
            hint="ask its administrators for user namespaces (user.max_user_namespaces), or to run `envmgr stage`",
        )
    pairs = [text for each in wanted for text in (each.image, each.path)]
    argv = [*words, "/bin/sh", "-c", mounting_script(), "sh", str(len(wanted)), *pairs, *command]
    os.execvp(argv[0], argv)  # noqa: S606 - it is the command from now on
