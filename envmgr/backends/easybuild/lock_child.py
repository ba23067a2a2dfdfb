"""The process in which `lock_as_user` has a lock made: one request on stdin, one line with the answer on stdout."""

from __future__ import annotations

import os
import sys

from envmgr.backends.easybuild import Workbench
from envmgr.backends.easybuild.lock_as_user import LockAnswer, LockRequest
from envmgr.backends.easybuild.make_lock import make_lock
from envmgr.catalog.names import parse_entry
from envmgr.errors import EnvmgrError, ErrorData
from envmgr.report import SilentReporter
from envmgr.system.run import Runner


def answer(request: LockRequest) -> LockAnswer:
    """Make the lock as the user that this process runs as. An EasyBuild that has to be made is the prefix's."""
    entry = parse_entry(request.entry)
    bench = Workbench(request.site, os.environ, Runner(), SilentReporter(), request.entry)
    try:
        lock, notes = make_lock(entry, request.wanted, bench, shared=True)
    except EnvmgrError as error:
        return LockAnswer(error=ErrorData.of(error))
    return LockAnswer(lock=lock, notes=notes)


def main() -> None:
    request = LockRequest.model_validate_json(sys.stdin.read())
    os.umask(request.site.policies.mask)
    sys.stdout.write(answer(request).model_dump_json() + "\n")


if __name__ == "__main__":
    main()
