"""Smoke tests on nodes, where no node is asked."""

from __future__ import annotations

from tests.helpers.sandbox import Sandbox


def test_options_for_nodes_need_nodes(sandbox: Sandbox) -> None:
    done = sandbox.run("test", "--user", "alice")
    assert (done.code, done.stderr) == (
        2,
        "error[test-user]: --user and --deadline are for nodes\n\nhint: add `--nodes SET`, or `--via ssh` for all\n",
    )


def test_nothing_published_asks_no_node(sandbox: Sandbox) -> None:
    done = sandbox.run("test", "--nodes", "nosuch[1-3]")
    assert (done.code, done.stderr.splitlines()[0]) == (
        3,
        f"error[nothing-published]: nothing is published in {sandbox.prefix}, as this host sees it",
    )
