"""The installs on real nodes, as a user has them: covered, closed, gone, without exec, with other bytes; and no answer is agreement."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.helpers.audit_scene import ENTRIES, Audited
from tests.helpers.places import ROOT
from tests.helpers.waiting import soon

pytestmark = pytest.mark.xdist_group("audited")
PREFIX = "/cluster/sw"
ROWS = list[tuple[str, str, str, str, str]]


@pytest.fixture(scope="module", autouse=True)
def _green_again(audited: Audited) -> Iterator[None]:
    yield
    assert audited.findings("--via", "ssh") == []


def installed(audited: Audited, entry: str = ENTRIES[0]) -> str:
    """The install's path on nodes."""
    record = json.loads((audited.cluster.host_prefix / "current/generation.json").read_text())
    return f"{PREFIX}/{record['entries'][entry]['path']}"


def of_software(rows: ROWS) -> list[tuple[str, str, str, str]]:
    return [(severity, nodes, where, found) for severity, check, nodes, where, found in rows if check == "software"]


@contextmanager
def done(audited: Audited, node: str, command: str, undo: str) -> Iterator[None]:
    audited.cluster.sh(node, command, check=True)
    try:
        yield
    finally:
        audited.cluster.sh(node, undo, check=True)


def test_empty_file_system_over_an_install_is_told_with_what_takes_it_away(audited: Audited) -> None:
    root = installed(audited)
    with done(audited, "c2", f"mount -t tmpfs none {root}", f"umount {root} 2>/dev/null || :"):
        result = audited.audit("--via", "ssh", code=1)
        of = [f for f in result["findings"] if f["check"] == "software" and f["where"] == "hello/1.0"]
        assert [(f["severity"], f["nodes"], f["found"]) for f in of] == [
            ("error", "c2", "bin/python: No such file or directory")
        ]
        rows = {row["nodes"]: row["fit"] for row in result["matrix"] if row["entry"] == "hello/1.0"}
        assert rows == {"c[1,3]": True, "c2": False}
        mount = [f for f in result["findings"] if f["check"] == "mount"]
        assert [(f["nodes"], f["where"]) for f in mount] == [("c2", root)]
        for hint in (of[0]["hint"], mount[0]["hint"]):  # it is a command, and mends
            assert hint.startswith(f"on the node: `umount {root}`")
        audited.cluster.sh("c2", f"umount {root}", check=True)
        assert audited.findings("--via", "ssh", code=0) == []


def seen_by_nodes(audited: Audited, wanted: tuple[str, str, str, str]) -> ROWS:
    """All findings, once nodes see what was changed on the server: they cache attributes for 3 s."""
    rows: ROWS = []

    def told() -> bool:
        rows[:] = audited.findings("--via", "ssh", "--check", "software", "--context", "bash-ssh")
        return wanted in of_software(rows)

    assert soon(told), rows
    return rows


def test_program_that_is_gone_is_told(audited: Audited) -> None:
    python = audited.cluster.host_prefix / installed(audited).removeprefix(f"{PREFIX}/") / "bin/python"
    away = audited.cluster.host_prefix / "parked-python"
    python.parent.chmod(0o755)
    python.rename(away)
    try:
        seen_by_nodes(audited, ("error", "c[1-3]", "hello/1.0", "bin/python: No such file or directory"))
    finally:
        away.rename(python)
        python.parent.chmod(0o555)
    assert soon(lambda: audited.findings("--via", "ssh", "--check", "software", "--context", "bash-ssh") == [])


def test_prefix_without_exec_is_an_error(audited: Audited) -> None:
    with done(audited, "c3", f"mount -o remount,bind,noexec {PREFIX}", f"mount -o remount,bind,exec {PREFIX}"):
        result = audited.audit("--via", "ssh", code=1)
    assert ("error", "c3", "mounted noexec: no program of an entry starts") in [
        (f["severity"], f["nodes"], f["found"]) for f in result["findings"]
    ]
    assert {row["nodes"] for row in result["matrix"] if row["fit"]} == {"c[1-2]"}


def test_program_that_a_start_up_file_shadows_is_told(audited: Audited) -> None:
    file = "/etc/profile.d/zzzz-mine.sh"
    line = "python() { echo mine; }; export -f python"
    audited.cluster.write("c1", file, f'if [ -n "$BASH_VERSION" ]; then {line}; fi\n')
    try:
        rows = of_software(audited.findings("--via", "ssh", "--check", "software", "--context", "bash-login", code=1))
    finally:
        audited.cluster.exec("c1", ["rm", file], check=True)
    found = "`python` is a function of the shell, after `module load hello/1.0`"
    assert [row for row in rows if row[2].startswith("bash-login")] == [
        ("error", "c1", "bash-login (root, alice)", found)
    ]


def test_deep_hashes_what_the_node_reads(audited: Audited) -> None:
    assert audited.findings("--via", "ssh", "--deep", "--check", "software", code=0) == []
    root = installed(audited)
    files = audited.cluster.sh("c1", f"cd {root} && find . -type f -size +0 | sed 's|^./||'").stdout.splitlines()
    covered = "; ".join(f"mount --bind /etc/hostname {root}/{file}" for file in files[:400])
    with done(audited, "c1", covered, f"for f in {' '.join(files[:400])}; do umount {root}/$f; done"):
        rows = of_software(audited.findings("--via", "ssh", "--deep", "--check", "software", code=1))
    assert any(
        severity == "error" and nodes == "c1" and said.startswith("other content: ")
        for severity, nodes, where, said in rows
        if where == "hello/1.0"
    )


def test_answer_that_a_node_does_not_give_is_always_told(audited: Audited) -> None:
    argv = [sys.executable, "-m", "tests.helpers.dropped_answers", "/etc/envmgr/site.yaml"]
    said = audited.cluster.exec("login", ["env", f"PYTHONPATH={ROOT}", *argv])
    assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout)
    assert found["healthy"] == []
    assert found["told"].keys() >= {"contexts", "libraries", "loading", "resolution", "software"}
    silent = [(check, stage) for check, stages in found["told"].items() for stage, told in stages.items() if not told]
    assert silent == []
