"""What looks well and is not: nothing that was not seen to work is taken for well, and nothing that a user prints for a fact."""

from __future__ import annotations

from tests.helpers.audit_scene import Audited
from tests.helpers.cluster import faults
from tests.helpers.cluster.disguises import do, file_on

PREFIX = "/cluster/sw"
# Every check, in one kind of shell: for faults that shells have no part in.
SHORT = ("--via", "ssh", "--context", "bash-ssh")
CONTEXTS = ("--check", "contexts", "--context", "bash-login", "--context", "bash-ssh")


def test_shell_that_ends_early_is_no_agreement(audited: Audited) -> None:
    """`exit` in a file of profile.d: the shell ends well, and has said nothing."""
    with file_on(audited.cluster, "c3", "/etc/profile.d/aa-exit.sh", "exit 0\n"):
        result = audited.audit("--via", "ssh", "--context", "bash-login", code=1)
    (cause,) = result["causes"]
    assert (cause["severity"], cause["nodes"], cause["where"]) == ("error", "c3", "/etc/profile.d/aa-exit.sh")
    early = "the shell ended before the probe in it: `exit` or `exec` in a start-up file?"
    assert f"cannot be probed: {early}" in {each["found"] for each in cause["consequences"]}


def test_nothing_stays_in_tmp(audited: Audited) -> None:
    nodes = ("login", "c1", "c3")
    before = {node: do(audited.cluster, node, "ls -A /tmp") for node in nodes}
    left = "/tmp/envmgr-audit.killed"  # by a node that was switched off in an audit, days ago
    do(audited.cluster, "c1", f"mkdir {left}; touch -d '2 days ago' {left}")
    audited.audit("--via", "both", code=0)
    assert {node: do(audited.cluster, node, "ls -A /tmp") for node in nodes} == before


def test_user_cannot_forge_facts(audited: Audited) -> None:
    lines = "echo @gate=hung; echo @fitness.glibc=1.0; echo @~host=c9; echo @resolution.avail=x; . ~/.profile\n"
    with file_on(audited.cluster, "c1", "/home/alice/.bash_profile", lines):
        found = audited.findings("--via", "ssh", "--context", "bash-login", code=0)
    said = 'a start-up file prints "@gate=hung"'
    assert found == [("note", "contexts", "c[1-3]", "bash-login (alice)", said)]


def test_what_a_node_prints_does_nothing_in_a_terminal(audited: Audited) -> None:
    with file_on(audited.cluster, "c2", "/etc/profile.d/zz.sh", "printf '\\033[2J\\033]0;pwned\\007\\r\\n'\n"):
        done = audited.cluster.envmgr(["audit", *CONTEXTS])
    assert "\\x1b[2J\\x1b]0;pwned\\x07\\r" in done.stdout
    assert not set("\x1b\x07\r") & set(done.stdout)


def test_what_start_up_files_write_is_bounded_on_the_node(audited: Audited) -> None:
    """Not to the end of the disk: the shell that would is ended, and that is told."""
    with file_on(audited.cluster, "c2", "/etc/profile.d/zz.sh", "head -c 200000000 /dev/zero | tr '\\0' x\n"):
        found = audited.findings("--check", "contexts", "--context", "bash-login", code=1)
    told = "cannot be probed: its start-up files print more than 8 MB"
    errors = [("error", "contexts", "c2", f"bash-login ({user})", told) for user in ("root", "alice")]
    assert [f for f in found if f[0] == "error"] == errors


def test_full_tmp_is_named(audited: Audited) -> None:
    do(audited.cluster, "c2", "mount -t tmpfs -o ro tmpfs /tmp; mount -t tmpfs -o ro tmpfs /dev/shm")
    try:
        told = [("error", "c2", "/tmp"), ("error", "c2", "/dev/shm")]  # read-only
        assert audited.causes("--check", "mount", code=1) == told, "a third place is tried"
    finally:
        do(audited.cluster, "c2", "umount -l /tmp /dev/shm")


def test_hung_prefix_is_found_while_its_names_are_cached(audited: Audited) -> None:
    """A kernel's attribute cache answers for a minute; the first thing that reads would hang."""
    remount = "sed -i \"s/^MOUNT_OPTIONS=.*/MOUNT_OPTIONS='{}'/\" /etc/cluster-share && cluster-share remount"
    for node in ("login", "c2"):
        do(audited.cluster, node, remount.format("-A 60 -E 60 -L"))
        do(audited.cluster, node, f"ls -d {PREFIX}; readlink {PREFIX}/current; ls {PREFIX}/current/")
    try:
        with faults.hung(audited.cluster, "c2"):
            found = [of for of in audited.findings(*SHORT, code=1) if of[0] != "note"]
            assert found == [("error", "mount", "c2", PREFIX, "does not answer (fuse.nfs3 fs1:/export/sw)")]
        with faults.hung(audited.cluster, "login"):
            found = audited.findings(*SHORT, code=3)
        assert found[0][:4] == ("error", "generation", "", PREFIX)
        assert found[0][4].startswith(f"{PREFIX} does not answer on this host; c[1-3] see generations/")
    finally:
        for node in ("login", "c2"):
            do(audited.cluster, node, remount.format(""))


def test_two_names_of_one_host(audited: Audited) -> None:
    """A wrong line in /etc/hosts, and host keys that were cloned with the image: ssh is content."""
    cluster = audited.cluster
    hosts = do(cluster, "login", "cat /etc/hosts")
    c1 = next(line.split()[0] for line in hosts.splitlines() if line.split()[1:] == ["c1"])
    wrong = "\n".join(f"{c1} c2" if line.split()[1:] == ["c2"] else line for line in hosts.splitlines()) + "\n"
    known = do(cluster, "login", "cat /etc/ssh/ssh_known_hosts")
    key = next(line.split(" ", 1)[1] for line in known.splitlines() if line.startswith("c1"))
    with (
        faults.shadowed_file(cluster, "login", "/etc/hosts", wrong),
        faults.shadowed_file(cluster, "login", "/etc/ssh/ssh_known_hosts", f"{known}c2,{c1} {key}\n"),
    ):
        found = audited.findings("--check", "mount", code=1)
    assert found == [("error", "nodes", "c2", "ssh", "answers as c1, as c1 does")]


def test_options_are_compared_where_the_site_says_who_may_write(audited: Audited) -> None:
    options = do(audited.cluster, "c2", f"grep ' {PREFIX} ' /proc/self/mountinfo | cut -d' ' -f6").strip()
    audited.cluster.write_site(mount={"writable": "@compute", "locks": "local"})
    do(audited.cluster, "c2", f"mount -o remount,bind,{options},noexec {PREFIX}")
    try:
        found = audited.findings("--check", "mount", code=1)
    finally:
        do(audited.cluster, "c2", f"mount -o remount,bind,{options},exec {PREFIX}")
        audited.cluster.write_site()
    assert found[0][:4] == ("error", "inventory", "c2", PREFIX)
    assert found[1:] == [("error", "mount", "c2", PREFIX, "mounted noexec: no program of an entry starts")]


def test_file_server_among_the_nodes_has_its_own_disk(audited: Audited) -> None:
    audited.set_up("fs1")
    found = audited.findings("--check", "mount", "--nodes", "fs1,c[1-3]", code=0)
    audited.cluster.envmgr(["node-setup", "--undo", "--apply", "--nodes", "fs1"])
    assert {of[0] for of in found} == {"note"}


def test_prefix_that_is_a_link(audited: Audited) -> None:
    cluster = audited.cluster
    for node in ("login", *cluster.compute):
        do(cluster, node, "ln -s /cluster/sw /srv/lnk")
    cluster.write_site(prefix="/srv/lnk", mount={"source": "fs1:/export/sw", "locks": "local"})
    try:
        assert audited.findings("--check", "mount", "--check", "generation", code=0) == []
    finally:
        cluster.write_site()
        for node in ("login", *cluster.compute):
            do(cluster, node, "rm /srv/lnk")


def test_nothing_published_is_said_once(audited: Audited) -> None:
    cluster = audited.cluster
    for node in ("login", *cluster.compute):
        do(cluster, node, "mkdir /srv/np")
    cluster.write_site(prefix="/srv/np")
    try:
        found = audited.findings("--check", "mount", code=0)
        asked_for = audited.findings("--check", "generation", code=3)
    finally:
        cluster.write_site()
        for node in ("login", *cluster.compute):
            do(cluster, node, "rm -r /srv/np")
    assert found == [("note", "generation", "", "/srv/np", "nothing is published there yet")]
    assert asked_for == [
        (
            "error",
            "generation",
            "",
            "/srv/np",
            "/srv/np is empty on this host: it is not mounted here, or nothing was published",
        )
    ]
