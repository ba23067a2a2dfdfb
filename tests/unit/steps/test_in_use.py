"""Who is asked what is in use, and what becomes of what cannot be asked: by whom gc is run, and where."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from envmgr.catalog.site import Site, load_site
from envmgr.nodes.envelope import Reply, Status
from envmgr.report import SilentReporter
from envmgr.steps import Context
from envmgr.steps import in_use as module
from envmgr.steps.in_use import Uses, ask_in_use
from envmgr.system.run import Detached, Runner

CLOSED = "2 processes cannot be looked at: sshd (7) of root, init (8) of root"
NAMED = {"generations/0002": "bash (9) of nobody"}
SUBMITTED = 1767323045.0


@pytest.fixture
def ctx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    """A prefix that only its owner reaches; this host's processes name generation 2, and some cannot be looked at."""
    (tmp_path / "prefix").mkdir(mode=0o700)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/sbin:/sbin")  # no Slurm of this machine's
    monkeypatch.setattr(module, "read_uses", lambda _: Uses(NAMED, None, CLOSED, "", os.geteuid()))
    monkeypatch.setattr(module, "run_detached", lambda *_, **__: Detached(0, "", ""))
    return Context(site(tmp_path / "prefix"), Runner(), SilentReporter(), {})


def site(prefix: Path, **fields: Any) -> Site:
    return load_site(None, {"XDG_DATA_HOME": "/nowhere"}).model_copy(update={"prefix": prefix, **fields})


def ordinary(monkeypatch: pytest.MonkeyPatch, ctx: Context) -> None:
    os.chown(ctx.prefix.root, 65534, 65534)
    monkeypatch.setattr(os, "geteuid", lambda: 65534)


def squeue(ctx: Context) -> None:
    file = ctx.prefix.root.parent / "bin/squeue"
    file.write_text("#!/bin/sh\necho '7|alice|PENDING|2026-01-02T03:04:05'\n")
    file.chmod(0o755)


def test_root_that_cannot_look_at_a_process_keeps_all(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    asked = ask_in_use(ctx, 60, [*NAMED])
    assert asked.found().unknown == (f"this host: {CLOSED}",)
    assert (asked.of, asked.found().named) == (["this host"], {"generations/0002": ["bash (9) of nobody on this host"]})


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives a folder to another")
def test_ordinary_user_whose_prefix_nobody_else_reaches_keeps_what_is_seen(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary(monkeypatch, ctx)
    found = ask_in_use(ctx, 60, [*NAMED]).found()
    assert (found.unknown, [*found.named]) == ((), ["generations/0002"])
    ctx.prefix.root.chmod(0o711)
    (unknown,) = ask_in_use(ctx, 60, [*NAMED]).found().unknown
    assert unknown == (
        f"nobody cannot see the processes of other users, who can reach {ctx.prefix.root}: run it as root ({CLOSED})"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives a folder to another")
@pytest.mark.parametrize("where", ["nodes", "slurm"])
def test_ordinary_user_keeps_all_where_there_are_nodes_or_jobs(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    ordinary(monkeypatch, ctx)
    if where == "slurm":
        squeue(ctx)
    else:
        ctx = Context(site(ctx.prefix.root, login_nodes="login"), Runner(), SilentReporter(), {})
    (unknown,) = ask_in_use(ctx, 60, [*NAMED]).found().unknown
    assert unknown.startswith("nobody cannot see other users' processes")
    assert unknown.endswith(": run it as root")


def test_job_keeps_what_a_session_could_have_when_it_was_submitted(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    squeue(ctx)
    assert ask_in_use(ctx, 0, [*NAMED]).found().since == (
        (SUBMITTED - 300, "job 7 of alice (pending), submitted 2026-01-02T03:04:05Z"),
    )
    assert ask_in_use(ctx, 2, [*NAMED]).found().since[0][0] == SUBMITTED - 300 - 2 * 86400


def test_slurm_that_does_not_answer_keeps_all(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    squeue(ctx)
    (ctx.prefix.root.parent / "bin/squeue").write_text("#!/bin/sh\necho 'slurm_load_jobs error: no' >&2\nexit 1\n")
    assert ask_in_use(ctx, 60, [*NAMED]).found().unknown[0] == "Slurm's jobs are not known: Slurm does not answer: no"


def test_disk_that_is_full_keeps_all(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> Detached:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(module, "run_detached", full)
    asked = ask_in_use(ctx, 60, [*NAMED])
    assert (asked.found().unknown, asked.of) == (
        ("this host: its processes could not be looked at: No space left on device",),
        [],
    )


def test_nodes_are_told_in_their_order_whoever_answers_first(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(nodes: Sequence[str], *_: object, on_reply: Callable[[Reply], None], **__: object) -> None:
        for node in reversed(nodes):
            status: Status = "unreachable" if node == "c2" else "answered"
            on_reply(Reply(node, status, "", "no route" if node == "c2" else "", 0.0, 1.0))

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(module, "ask_nodes", ask)
    monkeypatch.setattr(module, "read_uses", lambda _: Uses(NAMED, (7.0, "sh (8) of alice"), "", "half an answer", 0))
    ctx = Context(site(ctx.prefix.root, login_nodes="c[1-3]"), Runner(), SilentReporter(), {})
    found = ask_in_use(ctx, 60, [*NAMED]).found()
    assert found.named["generations/0002"] == [f"bash (9) of nobody on {where}" for where in ("this host", "c1", "c3")]
    assert found.unknown == ("this host: half an answer", "c[1,3]: half an answer", "c2: unreachable: no route")


def test_user_whose_processes_take_too_long_is_named_and_keeps_what_a_job_would(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = ((7.0, "python (8) of alice and 2 more"), (5.0, "sh (9) of bob"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(module, "read_uses", lambda _: Uses({}, late=late))
    monkeypatch.setattr(module.time, "time", lambda: 1_000_000_000.0)
    asked = ask_in_use(ctx, 2, [*NAMED])
    assert asked.users == [f"{who} on this host could not be looked at in time" for _, who in late]
    assert (asked.found().unknown, asked.found().since) == (
        (),
        tuple((1e9 - age - 2 * 86400 - 300, f"{who} on this host, not looked at in time") for age, who in late),
    )
