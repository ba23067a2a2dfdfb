"""The simulated node of benchmarks/audit.py answers what is sent to nodes: a benchmark that broke would not be noticed."""

from __future__ import annotations

import subprocess

from benchmarks.audit import _NODE
from envmgr.nodes.envelope import unwrap, wrap


def test_simulated_node_answers_between_the_marks_of_the_script_that_it_was_sent() -> None:
    script = wrap("echo probe\n", "n0nce17", limit=1000, timeout=60)
    done = subprocess.run(
        ["sh", "-c", _NODE],
        input=script.encode(),
        capture_output=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "SSH_CONNECTION": "127.0.0.1 1 127.0.1.5 22"},
    )
    answer = unwrap(done.stdout, "n0nce17")
    assert (answer.status, answer.text.splitlines()[0]) == ("answered", "@~host=127.0.1.5"), answer
