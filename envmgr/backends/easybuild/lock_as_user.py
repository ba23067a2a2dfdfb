"""`envmgr lock` of root: EasyBuild and easyconfigs run as the build user, who cannot become root by them.

The answer is data. It is read as a lock is read, and compared with what was asked.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from envmgr.backends.easybuild.input import EasyBuildInput
from envmgr.backends.easybuild.lock import EasyBuildLock
from envmgr.catalog.names import Entry, parse_entry
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter, SilentReporter
from envmgr.system.privileges import Account
from envmgr.system.run import RunAs, Runner, clean_env

# What EasyBuild's environment is made with, and where Lmod is; nothing else of root's shell passes.
_PASSED = ("LMOD_PKG", "LMOD_DIR", "LMOD_CMD", "SSL_CERT_FILE", "SSL_CERT_DIR", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT")  # fmt: skip
_NOT_PASSED = ("UV_CACHE_DIR",)  # root's


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True)

    entry: str
    wanted: EasyBuildInput
    site: Site


class _Answer(BaseModel):
    """`error` is what an EnvmgrError is made of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lock: EasyBuildLock | None = None
    notes: tuple[str, ...] = ()
    error: dict[str, Any] | None = None


def make_lock_as(
    account: Account, entry: Entry, wanted: EasyBuildInput, site: Site, runner: Runner, reporter: Reporter
) -> tuple[EasyBuildLock, tuple[str, ...]]:
    """As `locking.make_lock`, in a process of that user. EasyBuild is the prefix's, made by that user if need be.

    Raises:
        EnvmgrError: as there; `easybuild-failed` for an answer that is none.
    """
    request = _Request(entry=str(entry), wanted=wanted, site=site)
    env = clean_env(
        HOME=account.home, USER=account.name, LOGNAME=account.name, PYTHONDONTWRITEBYTECODE="1",
        **{k: v for k, v in os.environ.items() if _passes(k)},
    )  # fmt: skip
    env.pop("TMPDIR", None)  # root's
    with reporter.stage(f"{entry} resolve"):
        done = runner.run(
            [sys.executable, "-s", "-P", "-m", "envmgr.backends.easybuild.lock_as_user"], env=env, cwd=Path("/"), check=False,
            stdin=request.model_dump_json(by_alias=True), run_as=RunAs(account.uid, account.gid, account.groups),
        )  # fmt: skip
    try:
        answer = _Answer.model_validate_json(done.stdout.splitlines()[-1])
        if answer.error is not None:
            raise _again(**answer.error)
    except (ValidationError, ValueError, IndexError, TypeError):
        answer = _Answer()
    if answer.lock is None or answer.lock.recipe != wanted.digest():
        raise EnvmgrError(
            "easybuild-failed", f"EasyBuild {wanted.easybuild} did not resolve {wanted.easyconfig}",
            context=[f"it ran as {account.name}", *done.stderr.strip().splitlines()[-12:]],
        )  # fmt: skip
    return answer.lock, answer.notes


def _passes(name: str) -> bool:
    return name not in _NOT_PASSED and (name in _PASSED or name.startswith("UV_") or name.upper().endswith("_PROXY"))


def _again(*, exit_code: int, reference: str, message: str, context: list[str], hint: str) -> EnvmgrError:
    error = EnvmgrError(str(reference), str(message), context=[str(line) for line in context], hint=str(hint))
    error.exit_code = int(exit_code)
    return error


def main() -> None:
    """One request on stdin, one answer on stdout."""
    from envmgr.backends.easybuild.locking import make_lock

    request = _Request.model_validate_json(sys.stdin.read())
    os.umask(request.site.policies.mask)
    try:
        lock, notes = make_lock(
            parse_entry(request.entry),
            request.wanted,
            request.site,
            Runner(),
            SilentReporter(),
            os.environ,
            shared=True,
        )
        answer = {"lock": lock.model_dump(mode="json"), "notes": notes}
    except EnvmgrError as error:
        answer = {
            "error": {
                "exit_code": error.exit_code, "reference": error.reference, "message": error.message,
                "context": error.context, "hint": error.hint,
            }
        }  # fmt: skip
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
