"""Bad days on a real cluster over NFS: every fault is found by name, on its nodes alone, and is gone once mended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from envmgr.probe.shell import NO_USER_HINT
from tests.helpers.audit_scene import Audited
from tests.helpers.cluster import Cluster, faults
from tests.helpers.cluster.disguises import do, file_on, prefixed
from tests.helpers.waiting import PATIENT, soon, wait_for

pytestmark = pytest.mark.xdist_group("audited")
PREFIX = "/cluster/sw"
SOURCE = "fs1:/export/sw"
# Every check, in one kind of shell: for faults that shells have no part in.
SHORT = ("--via", "ssh", "--context", "bash-ssh")
# What looks at what shells have.
SHELLS = ("--via", "ssh", "--check", "contexts", "--check", "inventory", "--check", "software")
Fault = Callable[[Cluster, str], AbstractContextManager[None]]


def row(finding: dict[str, str]) -> tuple[str, ...]:
    return tuple(finding[key] for key in ("severity", "check", "nodes", "where", "found"))


# -- the prefix ---------------------------------------------------------------------------------------------------------


def test_hung_prefix_does_not_hang_the_audit(audited: Audited) -> None:
    with faults.hung(audited.cluster, "c2"):
        found = audited.findings(*SHORT, code=1)
        assert found == [("error", "mount", "c2", PREFIX, f"does not answer (fuse.nfs3 {SOURCE})")]


def test_hung_server_is_told_for_every_node_and_for_this_host(audited: Audited) -> None:
    with faults.server_hung(audited.cluster):
        found = audited.findings(*SHORT, code=3)
        assert found == [
            ("error", "mount", "c[1-3]", PREFIX, f"does not answer (fuse.nfs3 {SOURCE})"),
            ("error", "generation", "", PREFIX, f"{PREFIX} does not answer on this host"),
        ]


def test_old_copy_of_the_prefix(audited: Audited) -> None:
    before = audited.generation
    with faults.old_copy(audited.cluster, "c2"):
        audited.envmgr("publish", "--remove", "hello/1.0")
        found = audited.findings(*SHORT, code=1)
        audited.envmgr("publish", "hello/1.0")
    assert found[0][:4] == ("error", "inventory", "c2", PREFIX)
    assert ("error", "generation", "c2", f"{PREFIX}/current", f"names generation {before}") in found
    assert {nodes for _, _, nodes, *_ in found} == {"c2"}


def test_node_that_need_not_have_seen_a_publish_yet_is_asked_again(audited: Audited) -> None:
    """What an attribute cache does, for longer than the test bed's: the old tree for some seconds after the publish."""
    audited.cluster.write_site(mount={"attribute_cache": 10})
    late = ExitStack()
    late.enter_context(faults.old_copy(audited.cluster, "c1"))
    try:
        audited.envmgr("publish", "--remove", "hello/1.0")
        shown = threading.Thread(target=_after_the_first_look, args=(audited.cluster, "c1", late.close))
        shown.start()
        try:
            result = audited.audit(*SHORT, code=0)
        finally:
            shown.join()
        assert result["generation"] == audited.generation
    finally:
        late.close()
        audited.cluster.write_site()
        audited.envmgr("publish", "hello/1.0")


def _after_the_first_look(cluster: Cluster, node: str, then: Callable[[], None]) -> None:
    def looks() -> bool:
        return any("envmgr-audit" in line for line in cluster.processes(node))

    if soon(looks) and soon(lambda: not looks()):
        then()


def test_read_only_mount(audited: Audited) -> None:
    with faults.read_only(audited.cluster, "c2"):
        assert audited.causes(*SHORT, code=1) == [("warning", "c2", PREFIX)]


def test_mount_that_must_be_read_only_by_the_site(audited: Audited) -> None:
    audited.cluster.write_site(mount={"source": SOURCE, "writable": "c3", "locks": "local"})
    try:
        assert audited.findings(*SHORT, code=1) == [("error", "mount", "c[1-2]", PREFIX, "mounted rw")]
    finally:
        audited.cluster.write_site()


def test_mount_from_another_server_than_the_site_says(audited: Audited) -> None:
    audited.cluster.write_site(mount={"source": "fs2:/export/sw", "locks": "local"})
    try:
        assert audited.findings(*SHORT, code=1) == [("error", "mount", "c[1-3]", PREFIX, f"mounted from {SOURCE}")]
    finally:
        audited.cluster.write_site()


def test_prefix_that_an_ordinary_user_can_write(audited: Audited) -> None:
    folder = f"{PREFIX}/generations"
    audited.cluster.exec("login", ["chmod", "o+w", folder], check=True)
    _seen_everywhere(audited, folder, "o+w")
    found = audited.findings(*SHORT, code=1)
    audited.cluster.exec("login", ["chmod", "o-w", folder], check=True)
    _seen_everywhere(audited, folder, "o-w")
    assert found == [("error", "mount", "c[1-3]", PREFIX, f"alice can write {folder}")]


def _seen_everywhere(audited: Audited, folder: str, change: str) -> None:
    """Attribute caches of nodes have heard of it."""
    test = f"find {folder} -maxdepth 0 -perm -o+w"
    for node in audited.cluster.compute:
        wait_for(
            lambda node=node: bool(audited.cluster.sh(node, test).stdout) == (change == "o+w"),  # type: ignore[misc]
            what=f"{change} on {node}",
        )


def test_slow_link(audited: Audited) -> None:
    with faults.slow_link(audited.cluster, "c2", "32kbit"):
        found = audited.findings("--check", "mount", *PATIENT, code=1)
    assert {finding[:4] for finding in found} == {("warning", "mount", "c2", PREFIX)}
    (told,) = (said for *_, said in found if not said.startswith("answers in "))  # that may be slow, too
    assert told.startswith("the generation's record and cache are read in ")


# -- the node and the way to it -----------------------------------------------------------------------------------------


def test_dead_node(audited: Audited) -> None:
    with faults.dead_node(audited.cluster, "c3"):
        result = audited.audit(*SHORT, code=1)
    audited.set_up("c3")  # it came back with a fresh system disk
    audited.task_prolog()
    (finding,) = [f for f in result["findings"] if f["check"] != "slurm"]  # Slurm may notice it, too
    assert {action["do"] for action in finding.pop("actions")} == {"look"}
    assert finding.pop("found") in [f"unreachable: {reason}" for reason in faults.OFF]
    assert finding == (
        {
            "check": "nodes",
            "severity": "error",
            "where": "ssh",
            "expected": "an answer",
            "hint": "is c3 on, and on the network? `ping c3`",
            "nodes": "c3",
            "between": "",
        }
    )
    assert result["asked"] == [{"way": "ssh", "answered": "c[1-2]", "silent": "", "unreachable": "c3"}]


@pytest.mark.parametrize(
    ("fault", "why"),
    [(faults.sshd_stopped, "Connection refused (port 22)"), (faults.changed_host_key, "Host key verification failed")],
)
def test_node_that_ssh_does_not_reach(audited: Audited, fault: Fault, why: str) -> None:
    with fault(audited.cluster, "c2"):
        result = audited.audit(*SHORT, code=1)
    assert ("error", "nodes", "c2", "ssh", f"unreachable: {why}") == row(result["causes"][0])


def test_banner_does_not_hurt_and_is_told(audited: Audited) -> None:
    with faults.banner(audited.cluster, "c2"):
        result = audited.audit(code=1)
    assert {(f["severity"], f["nodes"]) for f in result["causes"]} == {("warning", "c2")}
    assert 'a start-up file prints "Welcome to the cluster!"' in {f["found"] for f in result["findings"]}


# -- what shells and Lmod find ------------------------------------------------------------------------------------------


def test_other_content_under_the_same_path(audited: Audited) -> None:
    path = f"{PREFIX}/generations/{audited.generation:04d}/modules/hello/1.0.lua"
    with faults.shadowed_file(audited.cluster, "c3", path, 'setenv("HELLO", "another")\n'):
        found = audited.findings(*SHORT, code=1)
    assert {row[2] for row in found} == {"c3"}
    assert ("error", "inventory", "c3", path) in [row[:4] for row in found]
    where = f"generation {audited.generation}"
    assert ("error", "generation", "c3", where, f"not as published: {path}") in found
    assert ("error", "loading", "c3", "hello/1.0") in [row[:4] for row in found]


def test_profile_that_overwrites_modulepath_except_for_root_and_a_malformed_csh_variant(audited: Audited) -> None:
    """As a well-known cluster toolkit installs it."""
    profile = '[ "$(id -u)" = 0 ] || export MODULEPATH=/opt/site/modules\n'
    with (
        file_on(audited.cluster, "c1", "/etc/profile.d/zzz-site.sh", profile),
        prefixed(audited.cluster, "c1", Path("/etc/csh.cshrc"), "setenv MODULEPATH /opt/site/modules\nif (\n"),
    ):
        found = audited.causes(*SHELLS, code=1)
    assert {(severity, nodes, where.partition(":")[0]) for severity, nodes, where in found} == {
        ("error", "c1", "/etc/csh.cshrc"),
        ("error", "c1", "/etc/profile.d/zzz-site.sh"),
    }


def test_node_without_node_setup(audited: Audited) -> None:
    audited.cluster.envmgr(["node-setup", "--undo", "--apply", "--nodes", "c2"])
    try:
        result = audited.audit(*SHELLS, code=1)
    finally:
        audited.set_up("c2")
    assert {f["nodes"] for f in result["causes"]} == {"c2"}
    first = result["causes"][0]
    assert (first["severity"], first["where"]) == ("error", "/etc/bash.bashrc")
    assert "`envmgr node-setup --apply --nodes c2`" in {of["hint"] for of in result["causes"]}


def test_user_that_a_node_does_not_know(audited: Audited) -> None:
    accounts = do(audited.cluster, "c2", "grep -v ^alice: /etc/passwd")
    with faults.shadowed_file(audited.cluster, "c2", "/etc/passwd", accounts):
        result = audited.audit("--via", "ssh", *PATIENT, code=1)
        (alone,) = audited.audit("--check", "resolution", code=1)["findings"]
    assert [of["where"] for of in result["causes"] if of["severity"] != "note"] == ["/etc/passwd"]
    finding = next(of for of in result["findings"] if of["check"] == "contexts")
    assert (finding["nodes"], finding["found"]) == ("c2", "cannot be probed: there is no user alice")
    told = [alone[key] for key in ("check", "nodes", "where", "found")]
    assert told == ["nodes", "c2", "ssh", "asking Lmod in a login shell: there is no user alice"]
    assert alone["hint"] == finding["hint"] == NO_USER_HINT


def test_node_without_csh_is_not_waited_for(audited: Audited) -> None:
    paths = do(audited.cluster, "c2", "type -P csh tcsh").split()
    do(audited.cluster, "c2", f"for f in {' '.join(paths)}; do mv $f $f-away; done")
    try:
        found = audited.findings(*SHELLS, *PATIENT, code=1)
    finally:
        do(audited.cluster, "c2", f"for f in {' '.join(paths)}; do mv $f-away $f; done")
    assert [of[:4] for of in found if of[0] != "note"] == [("warning", "inventory", "c2", "/usr/bin/tcsh")]


def test_reference_is_right_whatever_others_have(audited: Audited) -> None:
    path = "/etc/profile.d/site.sh"
    with file_on(audited.cluster, "c2", path, "export SITE_NAME=lab\n"):
        assert audited.causes("--via", "ssh", code=1) == [("warning", "c2", path)]
        assert audited.causes("--via", "ssh", "--reference", "c2", code=1) == [("warning", "c[1,3]", path)]


def test_entries_hidden_by_an_rc_file_of_every_node(audited: Audited) -> None:
    """Nothing differs between nodes, and `module avail` says nothing."""
    with ExitStack() as stack:
        for node in audited.cluster.compute:
            stack.enter_context(file_on(audited.cluster, node, "/etc/lmod/hide.lua", 'hide_version("hello/1.0")\n'))
            line = "export LMOD_MODULERCFILE=/etc/lmod/hide.lua\n"
            stack.enter_context(file_on(audited.cluster, node, "/etc/profile.d/hide.sh", line))
        found = audited.findings("--check", "resolution", code=1)
    assert found == [("error", "resolution", "c[1-3]", "hello/1.0", "`module avail` does not list it")]
