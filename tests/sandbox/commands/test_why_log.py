"""`why` of a log, without Slurm: what it cannot know it says, and nothing is invented."""

from __future__ import annotations

import json
import os

import pytest

from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import HELLO, locked


@pytest.fixture
def box(sandbox: Sandbox) -> Sandbox:
    locked(sandbox, "hello/1.0", HELLO)
    sandbox.ok("build", "hello/1.0")
    return sandbox


def why(box: Sandbox, log: str, *more: str, owner: int | None = None) -> str:
    path = box.root / "job.out"
    path.write_text(log)
    if owner is not None:
        os.chown(path, owner, -1)
    return box.ok("why", str(path), *more).stdout


@pytest.mark.always
def test_a_log_says_no_more_than_it_says(box: Sandbox) -> None:
    record = json.loads((box.prefix / "current/generation.json").read_text())
    digest = record["entries"]["hello/1.0"]["digest"][:8]
    line = "envmgr: hello/1.0, generation 1, digest {}, on c1\n"
    said = why(box, line.format(digest))
    assert "nothing changed that envmgr knows of; not looked at: " in said

    # Another prefix's, or one that was made again.
    said = why(box, line.format("00000000"))
    assert "note: the job had hello/1.0 with the digest 00000000, and generation 1 has it with " in said
    assert f"hello/1.0 is another install: 00000000 -> {digest}" in said

    # Nothing but the time of the last change.
    said = why(box, "done\n")
    assert "nothing changed that envmgr knows of; not looked at: " in said
    assert "what was current before " in said
    assert "user/nosuch: you have none, and nothing says that there was one" in why(box, "done\n", "user/nosuch")

    mine = "envmgr: user/mine, generation 1, digest deadbeef, on c1\n"
    assert "user/mine is gone" in why(box, mine)
    if os.geteuid() == 0:
        said = why(box, mine, owner=65534)
        assert "not looked at: " in said
        assert "user/mine, which is another user's" in said
    for since in ("²", "9" * 5000):
        assert "error[bad-date]" in box.run("why", "--since", since).stderr
