"""The installs on real nodes, as a user has them: covered, closed, gone, without exec, with other bytes; and no answer is agreement."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.helpers.audit_scene import ENTRIES, Audited
from tests.helpers.places import ROOT

pytestmark = pytest.mark.xdist_group("audited")
PREFIX = "/cluster/sw"
# Every check, in one kind of shell: what is on disks is seen from any.
SHORT = ("--via", "ssh", "--context", "bash-ssh")
ROWS = list[tuple[str, str, str, str, str]]


def installed(audited: Audited, entry: str = ENTRIES[0]) -> str:
    """The install's path on nodes."""
    record = json.loads((audited.cluster.host_prefix / "current/generation.json").read_text())
    return f"{PREFIX}/{record['entries'][entry]['path']}"


def of_software(rows: ROWS) -> list[tuple[str, str, str, str]]:
    return [(severity, nodes, where, found) for severity, check, nodes, where, found in rows if check == "software"]


def rows_of(result: dict[str, Any]) -> ROWS:
    return [tuple(f[key] for key in ("severity", "check", "nodes", "where", "found")) for f in result["findings"]]


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
        result = audited.audit(*SHORT, code=1)
        first = result["causes"][0]
        assert (first["severity"], first["nodes"], first["where"]) == ("error", "c2", root)
        gone = "bin/python: No such file or directory"
        assert ("error", "c2", "hello/1.0", gone) in of_software(rows_of(result))
        rows = {row["nodes"]: row["fit"] for row in result["matrix"] if row["entry"] == "hello/1.0"}
        assert rows == {"c[1,3]": True, "c2": False}
        assert first["hint"].startswith(f"on the node: `umount -l {root}`")  # it is a command, and mends
        audited.cluster.sh("c2", f"umount {root}", check=True)
        assert audited.findings(*SHORT, code=0) == []


def on_the_server(audited: Audited, command: str) -> None:
    """Through the server, which would not hear of it for a minute else; the nodes' clients, which know names for half a minute, anew."""
    audited.cluster.sh("login", command, check=True)
    for node in audited.cluster.compute:
        audited.cluster.sh(node, "cluster-share remount", check=True)


def test_program_that_is_gone_is_told(audited: Audited) -> None:
    folder = f"{installed(audited)}/bin"
    on_the_server(audited, f"chmod u+w {folder} && mv {folder}/python {folder}/parked")
    try:
        rows = of_software(audited.findings(*SHORT, "--check", "software"))
    finally:
        on_the_server(audited, f"mv {folder}/parked {folder}/python && chmod u-w {folder}")
    assert ("error", "c[1-3]", "hello/1.0", "bin/python: No such file or directory") in rows
    assert audited.findings(*SHORT, "--check", "software") == []


def test_prefix_without_exec_is_an_error(audited: Audited) -> None:
    with done(audited, "c3", f"mount -o remount,bind,noexec {PREFIX}", f"mount -o remount,bind,exec {PREFIX}"):
        result = audited.audit(*SHORT, code=1)
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


def verified(audited: Audited, *argv: str, code: int) -> list[tuple[str, str, str, str]]:
    """(check, nodes, where, found) of `envmgr verify --nodes`."""
    done = audited.cluster.envmgr(["verify", *argv, "--format", "json"])
    assert done.code == code, f"exit {done.code}\n{done.stdout}{done.stderr}"
    return [(f["check"], f["nodes"], f["where"], f["found"]) for f in done.data["findings"]]


@pytest.mark.slow
@pytest.mark.soak
def test_verify_compares_what_nodes_see_through_their_mount(audited: Audited) -> None:
    nodes = ("--nodes", "c[1-3]")
    assert verified(audited, *nodes, code=0) == []
    root, generation = installed(audited), f"generations/{audited.generation:04d}"
    modules = f"{PREFIX}/{generation}/modules"
    path = root.removeprefix(f"{PREFIX}/")
    covers = (
        f"cp -a {root} /var/tmp/other && cd /var/tmp/other && chmod u+w bin . && echo x >new && mkfifo bin/pipe && "
        "chmod u-w bin . && cd / && "
        f"cp -a {modules} /var/tmp/modules && chmod -R u+w /var/tmp/modules && echo '-- x' >>/var/tmp/modules/hello/1.0.lua && "
        "chmod -R a-w /var/tmp/modules && "
        f"mount --bind /var/tmp/other {root} && mount --bind /var/tmp/modules {modules}"
    )
    clear = f"umount {root}; umount {modules}; chmod -R u+w /var/tmp/other /var/tmp/modules; rm -r /var/tmp/other /var/tmp/modules"
    with done(audited, "c1", covers, clear):
        rows = verified(audited, *nodes, "hello/1.0", code=1)
    assert rows == [
        ("generation", "c1", f"{generation}/modules/hello/1.0.lua", "sha256 changed"),
        ("install", "c1", "hello/1.0", f"{path}: bin/pipe: not among what it must have"),
        ("install", "c1", "hello/1.0", f"{path}: new: not among what it must have"),
    ]
    with done(audited, "c2", f"mount -t tmpfs none {PREFIX}/store", f"umount {PREFIX}/store"):
        rows = verified(audited, "--nodes", "c[2-3]", "hello/1.0", code=1)
    assert rows == [("install", "c2", "hello/1.0", f"{path}: missing")]
    rows = verified(audited, "--nodes", "c3,nosuch9", "hello/1.0", code=1)
    assert [row[:3] for row in rows] == [("node", "nosuch9", "nosuch9")]
    assert rows[0][3].startswith("unreachable: ")


def test_verify_says_what_it_saw_and_no_more(audited: Audited) -> None:
    root = installed(audited)
    manifest, path = f"{root}.manifest.json", root.removeprefix(f"{PREFIX}/")
    nodes = ("--nodes", "c[1-3]", "hello/1.0")
    other = f"sed 's/$/ /' {manifest} >/run/other && chmod 444 /run/other && mount --bind /run/other {manifest}"
    with done(audited, "c2", other, f"umount {manifest}; rm /run/other"):
        rows = verified(audited, *nodes, code=1)
    assert rows == [("install", "c2", "hello/1.0", f"{path}.manifest.json: sha256 changed")]
    broken = "printf '#!/bin/sh\\necho sha256sum: cannot load libcrypto >&2\\nexit 127\\n' >/run/broken && chmod 755 /run/broken && mount --bind /run/broken /usr/bin/sha256sum"
    with done(audited, "c3", broken, "umount /usr/bin/sha256sum; rm /run/broken"):
        said = audited.cluster.envmgr(["verify", "--nodes", "c[1-3],nosuch9", "hello/1.0"])
    assert said.code == 1
    lines = said.stdout.splitlines()
    assert f"error[install]: c3: hello/1.0: {path}: could not be hashed" in lines
    assert "1 install verified, on c[1-2], 0 differ from their manifest" in lines
    assert "not verified: c3,nosuch9" in lines
    unread = f"cp -a {root} /var/tmp/other && chmod 0 /var/tmp/other/bin/python && mount --bind /var/tmp/other {root}"
    with done(audited, "c1", unread, f"umount {root}; chmod -R u+w /var/tmp/other; rm -r /var/tmp/other"):
        rows = verified(audited, *nodes, code=1)
    ((check, on, where, found),) = rows
    assert (check, on, where) == ("install", "c1", "hello/1.0")
    assert found.startswith(f"{path}: bin/python"), found  # a link to it
    assert found.endswith(": cannot be read")


def test_verify_by_slurm_takes_what_the_partition_gives_and_says_slurms_own_reason(audited: Audited) -> None:
    cluster = audited.cluster
    (name,) = cluster.exec("login", ["sinfo", "-h", "-o", "%R"], check=True).stdout.split()
    before = cluster.exec("login", ["scontrol", "-o", "show", "partition", name], check=True).stdout
    longest = dict(word.partition("=")[::2] for word in before.split())["MaxTime"]
    cluster.exec("login", ["scontrol", "update", f"PartitionName={name}", "MaxTime=10"], check=True)
    try:
        assert verified(audited, "--nodes", "c[1-2]", "--via", "slurm", "hello/1.0", code=0) == []
        cluster.exec("login", ["scontrol", "update", f"PartitionName={name}", "State=DOWN"], check=True)
        audited.cluster.write_site(
            slurm={"heal_export": False},
            transport={"queue_timeout": 5, "via": "ssh", "connect_timeout": 10, "node_timeout": 240, "deadline": 600},
        )
        rows = verified(audited, "--nodes", "c1", "--via", "slurm", "hello/1.0", code=1)
    finally:
        cluster.exec(
            "login", ["scontrol", "update", f"PartitionName={name}", f"MaxTime={longest}", "State=UP"], check=True
        )
        audited.cluster.write_site(slurm={"heal_export": False})
    assert [row[:3] for row in rows] == [("node", "c1", "c1")]
    assert "PartitionDown" in rows[0][3] or "Requested partition configuration not available now" in rows[0][3], rows
    assert "busy" not in rows[0][3], rows


def test_answer_that_a_node_does_not_give_is_always_told(audited: Audited) -> None:
    argv = [sys.executable, "-m", "tests.helpers.dropped_answers", "/etc/envmgr/site.yaml"]
    said = audited.cluster.exec("login", ["env", f"PYTHONPATH={ROOT}", *argv])
    assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout)
    assert found["healthy"] == []
    assert found["told"].keys() >= {"contexts", "libraries", "loading", "resolution", "software"}
    silent = [(check, stage) for check, stages in found["told"].items() for stage, told in stages.items() if not told]
    assert silent == []
