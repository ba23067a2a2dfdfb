"""A check, a format and a drift, added as CONTRIBUTING.md says to a copy of the package, in a real audit."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.audit_scene import Audited
from tests.helpers.contributing import add_drift, copy_with
from tests.helpers.done import Done
from tests.helpers.drift_measure import judged

COPY = "/opt/copy"
UNAME = '#!/bin/sh\nif [ "$1" = -r ]; then echo 1.2.3; else exec /usr/bin/uname "$@"; fi\n'


@pytest.fixture
def copy(audited: Audited) -> Iterator[Path]:
    there = Path(f"/proc/{audited.cluster.pid('login')}/root{COPY}")
    there.mkdir()
    copy_with(there, "envmgr/audit/checks/kernel.", "envmgr/audit/formats/tsv.")
    yield there
    shutil.rmtree(there)


def audit(audited: Audited) -> Done:
    argv = ["audit", "--via", "ssh", "--check", "kernel", "--format", "tsv"]
    return audited.cluster.envmgr(argv, env={"PYTHONPATH": COPY})


def test_new_check_judges_nodes_against_this_host_and_the_new_format_tells_it(audited: Audited, copy: Path) -> None:
    """Its shell text runs on the nodes, its question on this host."""
    release = Path("/proc/sys/kernel/osrelease").read_text().strip()
    done = audit(audited)
    assert (done.code, done.stdout) == (0, "severity\tcheck\tnodes\tfound\n")
    audited.cluster.write("c2", "/usr/local/bin/uname", UNAME, 0o755)
    try:
        done = audit(audited)
    finally:
        audited.cluster.exec("c2", ["rm", "/usr/local/bin/uname"], check=True)
    assert (done.code, done.stdout) == (1, "severity\tcheck\tnodes\tfound\nwarning\tkernel\tc2\t1.2.3\n")
    assert release != "1.2.3"


def test_new_drift_is_told_as_its_row_says(audited: Audited, copy: Path) -> None:
    drift = add_drift(copy)
    with drift.put(audited.cluster):
        result = audited.audit("--via", "ssh", env={"PYTHONPATH": COPY})
    assert judged(result, [drift.expected]).why == ()
    (row,) = result["causes"]
    assert row["found"] == "/etc/ntp.conf is there, and not on others: clocks go apart"
