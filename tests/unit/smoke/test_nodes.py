"""Smoke tests on nodes: the ordinary user, and what answers come to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envmgr.catalog.recipe_parts import SmokeTest
from envmgr.catalog.site import load_site
from envmgr.nodes.envelope import Reply
from envmgr.smoke.nodes import RunAccount, choose_account
from envmgr.smoke.script import Missing, NodeTest, OutcomeFolding
from tests.helpers.cluster.site import settings
from tests.helpers.sites import with_backends


@pytest.mark.parametrize(
    ("transport", "named", "expected"),
    [
        ({"user": "root"}, None, RunAccount("alice", None)),
        ({"user": "admin", "become": "sudo -n"}, "bob", RunAccount("bob", None)),
        ({"user": "admin"}, None, RunAccount("admin", None)),
        ({"user": "admin"}, "bob", RunAccount("bob", "bob")),
    ],
)
def test_ordinary_user_is_chosen_where_we_can_become_others(
    tmp_path: Path, transport: dict[str, str], named: str | None, expected: RunAccount
) -> None:
    (tmp_path / "site.yaml").write_text(
        json.dumps(with_backends(settings(("c1",)) | {"transport": transport, "catalogs": []}))
    )
    assert choose_account(load_site(tmp_path / "site.yaml", {}), "ssh", named) == expected


def test_answers_without_sense_and_half_answers_are_never_a_pass() -> None:
    jobs = [NodeTest(f"t{i}", "a/1", SmokeTest(name=name, run=":"), "") for i, name in enumerate("pqrst")]
    folding = OutcomeFolding(jobs, 60)
    for node, answer in {
        "c1": "Welcome!",
        "c2": "@gate=ok\n@t0.rc=0\n@t1.rc=\n@t2.rc=0x",
        "c3": "@gate=ok\n@t0.rc=0\n@t1.stuck=process\n@t2.late=yes\n@t3.late=yes\n@t4.late=yes",
        "c4": "@gate=Transport endpoint is not connected",
    }.items():
        folding.take(Reply(node, "answered", answer, "", 0, 0))
    folding.take(Reply("c5", "silent", "@gate=ok\n@t0.rc=0", "half an answer", 0, 0))
    assert [(o.test, o.status, o.nodes) for o in folding.outcomes()] == [("p", "passed", "c[2-3]")]
    assert folding.missing() == (
        Missing("c3", "hung", "a/1 `q`: a process of it outlives SIGKILL; not run: a/1 `r`, a/1 `s`, a/1 `t`"),
        Missing("c2", "late", "the deadline of 60 s was over before the end of a/1 `q`, a/1 `r`, a/1 `s` and 1 more"),
        Missing("c5", "silent", "half an answer"),
        Missing("c1", "unfit", "no sense in its answer"),
        Missing("c4", "unfit", "the prefix cannot be used: Transport endpoint is not connected"),
    )
