"""An entry from a container image, on real nodes: users load it as any other, and the audit finds the node that cannot run it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.audit_scene import Audited
from tests.helpers.registry import busybox, files, registry, write_layout
from tests.helpers.sandbox import Sandbox

pytestmark = pytest.mark.xdist_group("audited")

ENTRY = "tool/1.0"
LOOK = ("--check", "runtimes", "--via", "ssh", "--context", "bash-ssh")
TOOL = b'#!/bin/sh\necho "$GREETING $(id -un) $(hostname) $SLURM_PROCID $PWD"\n'


@pytest.fixture
def lab(audited: Audited, tmp_path: Path) -> Iterator[Audited]:
    """The image, locked where there is a registry, brought as a folder, and published."""
    cluster = audited.cluster
    layers, env = [busybox(), files({"usr/bin/tool": TOOL}, mode=0o755)], ["PATH=/usr/bin:/bin", "GREETING=hello"]
    box = Sandbox(tmp_path, "")
    with registry(tmp_path / "registry") as found:
        found.push("lab/tool:1.0", layers, Env=env)
        given = {"image": f"{found.host}/lab/tool:1.0", "commands": ["tool"]}
        box.settings["backends"] = {"container": {"registries_conf": str(found.conf)}}
        box.write_site()
        folder = box.recipe(ENTRY, [], backend="container", input=given)
        box.ok("lock", ENTRY)
    write_layout(cluster.folder / "home/alice/layout", layers, Env=env)
    open_fuse = "mknod -m 666 /run/fuse c 10 229 && mount --bind /run/fuse /dev/fuse"
    for node in ("login", *cluster.compute):
        cluster.sh(node, open_fuse, check=True)
    cluster.recipe(ENTRY, [], backend="container", input=given)
    cluster.write("login", f"/etc/envmgr/recipes/{ENTRY}/image.lock.json", (folder / "image.lock.json").read_text())
    try:
        audited.envmgr("fetch", ENTRY, "--file", "/home/alice/layout")
        audited.envmgr("build", ENTRY)
        yield audited
    finally:
        cluster.envmgr(["publish", "--remove", ENTRY])
        cluster.sh("login", "rm -rf /etc/envmgr/recipes/tool", check=True)
        shutil.rmtree(cluster.folder / "home/alice/layout")
        for node in ("login", *cluster.compute):
            cluster.sh(node, "umount /dev/fuse && rm /run/fuse", check=True)


def in_a_job(lab: Audited, script: str = "tool") -> list[str]:
    """What alice's job says on two nodes."""
    lab.cluster.wait_idle()
    argv = ["srun", "-N2", "--chdir", "/home/alice", "bash", "-lc", f"module load {ENTRY} && {script}"]
    done = lab.cluster.exec("login", argv, user="alice")
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def test_users_run_it_in_a_job_and_the_audit_finds_the_node_without_a_runtime(lab: Audited) -> None:
    cluster, before = lab.cluster, lab.generation
    said = [line.split() for line in in_a_job(lab)]
    assert [(words[0], words[-1]) for words in said] == [("hello", "/home/alice")] * 2
    assert len({words[2] for words in said}) == 2
    assert lab.findings(*LOOK, code=0) == []

    closed = "touch /run/none && mount --bind /run/none"
    cluster.sh("c2", f"{closed} /usr/bin/ch-run && {closed} /usr/bin/podman", check=True)
    cluster.sh("c3", "umount /dev/fuse", check=True)
    cluster.sh("c3", "chmod 600 /run/fuse && mount --bind /run/fuse /dev/fuse", check=True)
    try:
        rows = {nodes: text for _, check, nodes, _, text in lab.findings(*LOOK) if check == "runtimes"}
        assert rows.keys() == {"c2", "c3"}
        assert rows["c2"].startswith(f"{ENTRY} cannot run: this node has no apptainer, charliecloud or podman")
        assert "failed to open /dev/fuse" in rows["c3"]
    finally:
        cluster.sh("c2", "umount /usr/bin/ch-run /usr/bin/podman", check=True)
        cluster.sh("c3", "umount /dev/fuse && chmod 666 /run/fuse && mount --bind /run/fuse /dev/fuse", check=True)
    lab.envmgr("rollback")
    assert lab.generation != before
    done = cluster.exec("c1", ["bash", "-lc", f"module load {ENTRY}"], user="alice")
    assert done.returncode != 0
    lab.envmgr("rollback", str(before))


def test_staged_image_is_a_copy_on_the_node_and_nothing_is_mounted(lab: Audited) -> None:
    cluster = lab.cluster
    staged = cluster.envmgr(["stage", ENTRY, "--nodes", "c[1-3]", "--format", "json"])
    assert {(row["nodes"], row["state"]) for row in staged.data["images"]} == {("c[1-3]", "local")}
    (install,) = {row["path"] for row in staged.data["images"]}
    assert install not in cluster.sh("c1", "cat /proc/self/mountinfo").stdout
    image = lab.envmgr("stage", "--image", ENTRY, "--format", "json").data
    assert (image["images"], len(image["left_out"])) == ([], 1)
    say = f"module load {ENTRY}; run sh -c 'sleep 1287' & for i in 1 2 3 4 5 6 7 8 9; do sleep 0.3; pgrep -af squashfuse; done; kill $!"
    said = cluster.exec("c1", ["bash", "-lc", say], user="alice").stdout
    assert "/var/lib/envmgr/images/" in said
    assert lab.findings("--check", "images", "--via", "ssh", "--context", "bash-ssh", code=0) == []
    cluster.envmgr(["stage", "--remove", ENTRY, "--nodes", "c[1-3]"])
    left = set(cluster.sh("c1", "ls -A /var/lib/envmgr/images").stdout.split())
    assert left <= {".lock", ".said", ".wrote"}
    assert in_a_job(lab) != []


@pytest.mark.parametrize("runtime", ["charliecloud", "podman"])
def test_ordinary_user_gets_what_the_program_says(lab: Audited, runtime: str) -> None:
    cluster = lab.cluster
    cluster.sh("c1", "mount -t cgroup2 none /sys/fs/cgroup", check=True)  # as on a node of today
    script = f"""module load {ENTRY}; export ENVMGR_RUNTIME={runtime}
        echo in | run sh -c 'cat; exit 7'; echo $?
        run sh -c 'echo written >/home/alice/written'; stat -c %U /home/alice/written; rm /home/alice/written
        run sh -c 'trap "exit 3" TERM; echo ready >/home/alice/ready; while :; do sleep 0.1; done' &
        until [ -e /home/alice/ready ]; do sleep 0.1; done; rm /home/alice/ready; kill -TERM $!; wait $!; echo $?
        cd /var/log; run pwd"""
    try:
        done = cluster.exec("c1", ["bash", "-lc", script], user="alice")
    finally:
        cluster.sh("c1", "umount /sys/fs/cgroup; rm -rf /tmp/.envmgr-podman-*", check=True)
    assert done.stdout.splitlines() == ["in", "7", "alice", "3", "/"], done.stderr
    assert "/var/log is not seen inside" in done.stderr
