"""`envmgr lock` of root: EasyBuild and easyconfigs run as the build user, and no process of that user can become root.

That process is `lock_child`. Its answer is data: it is read as a lock is read, and compared with what was asked.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from envmgr.backends.easybuild.lock import EasyBuildLock
from envmgr.backends.easybuild.settings import EasyBuildInput
from envmgr.catalog.names import Entry
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, ErrorData, ending
from envmgr.report import Reporter
from envmgr.system.child import NETWORK, passed, python_module
from envmgr.system.models import FrozenModel
from envmgr.system.run import Runner, clean_env
from envmgr.system.users import Account

# What EasyBuild's environment is made with, and where Lmod is; nothing else of root's shell passes.
_PASSED = ("LMOD_PKG", "LMOD_DIR", "LMOD_CMD", "UV_*", "PIP_*", *NETWORK)


class LockRequest(BaseModel):
    model_config = ConfigDict(frozen=True)

    entry: str
    wanted: EasyBuildInput
    site: Site


class LockAnswer(FrozenModel):
    """A lock with its notes, or an error."""

    lock: EasyBuildLock | None = None
    notes: tuple[str, ...] = ()
    error: ErrorData | None = None


def make_lock_as(
    account: Account, entry: Entry, wanted: EasyBuildInput, site: Site, runner: Runner, reporter: Reporter
) -> tuple[EasyBuildLock, tuple[str, ...]]:
    """Make a lock like `make_lock.make_lock`, in a process of that user.

    EasyBuild is the prefix's; that user makes it if needed.

    Raises:
        EnvmgrError: those of `make_lock`; `easybuild-failed` for an invalid answer.
    """
    request = LockRequest(entry=str(entry), wanted=wanted, site=site)
    env = clean_env(PYTHONDONTWRITEBYTECODE="1", **account.variables(), **passed(os.environ, *_PASSED))
    for of_root in ("TMPDIR", "UV_CACHE_DIR"):
        env.pop(of_root, None)
    with reporter.stage(f"{entry} resolve"):
        done = runner.run(
            python_module("envmgr.backends.easybuild.lock_child"),
            env=env,
            cwd=Path("/"),
            check=False,
            stdin=request.model_dump_json(by_alias=True),
            run_as=account,
        )
    try:
        answer = LockAnswer.model_validate_json(done.stdout.splitlines()[-1])
    except (ValidationError, IndexError):
        answer = LockAnswer()
    if answer.error is not None:
        raise answer.error.as_error()
    if answer.lock is None or answer.lock.recipe != wanted.digest():
        raise EnvmgrError(
            "easybuild-failed",
            f"EasyBuild {wanted.easybuild} did not resolve {wanted.easyconfig}",
            context=[
                f"its process {ending(done.returncode)}; it ran as {account.name}",
                *done.stderr.strip().splitlines()[-12:],
            ],
        )
    return answer.lock, answer.notes
