"""Images on nodes: mounted over the store's own paths, from the share and then from the local disk, and all that can go wrong."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.audit_scene import SITE
from tests.helpers.cluster import nfs_calls
from tests.helpers.cluster.disguises import do, file_on, job_mounts
from tests.helpers.image_scene import ENTRY, LOCAL, Images, forget, rows_of, staging
from tests.helpers.waiting import soon, wait_for

pytestmark = pytest.mark.xdist_group("images")

PREFIX = "import sys; print(sys.prefix)"


@pytest.mark.parametrize("via", ["ssh", "slurm"])
def test_staged_from_the_share_once_and_seen_by_everybody(images: Images, via: str) -> None:
    """In a job's own mounts (job_container/tmpfs) nobody else would see it: the mount is the node's, whatever the way."""
    done = images.run("stage", ENTRY, "--nodes", "c[1-3]", "--via", via, "--format", "json")
    assert rows_of(done) == {"c[1-3]": ("local", "")}
    assert done.data["way"].endswith("the share is read once")
    for node in images.cluster.compute:
        assert images.source(node) == images.copy(node)
        said = images.cluster.exec(
            node, [f"{images.install}/bin/python", "-c", PREFIX], user="alice", check=True
        ).stdout
        assert images.install in said
    assert images.audit(code=0) == []
    assert images.staged() == {"c[1-3]": ("local", "")}
    assert images.stage() == {"c[1-3]": ("local", "")}  # nothing to do


def test_healthy_audit_and_verify_see_no_drift(images: Images) -> None:
    """On some nodes only, too."""
    images.stage(nodes="c[1-2]")
    done = images.run("audit", "--via", "ssh", "--format", "prometheus")
    assert f'envmgr_entry_staged_nodes{{entry="{ENTRY}"}} 2' in done.stdout
    assert images.audited.findings("--via", "ssh", code=0) == []
    assert "0 differ" in images.run("verify", "--nodes", "c[1-3]").stdout


def test_mounts_of_jobs_are_not_those_of_the_node(images: Images) -> None:
    """With job_container/tmpfs, a step mounts for the node; what jobs see of it goes on when it is unstaged."""
    cluster = images.cluster
    see = f"grep -c ' {images.install} .* squashfs' /proc/self/mountinfo; {images.install}/bin/python -c '{PREFIX}'"
    waits = f"touch /var/tmp/job.in; until [ -e /var/tmp/job.out ]; do sleep 0.1; done; {see}"

    def job(*argv: str) -> subprocess.Popen[str]:
        return cluster.start("login", ["srun", "-Q", "-w", "c1", *argv], user="alice")

    def began(process: subprocess.Popen[str]) -> bool:
        wait_for(lambda: inside() or process.poll() is not None, what="the job")
        return inside()

    def inside() -> bool:
        return cluster.sh("c1", "[ -e /var/tmp/job.in ]").returncode == 0

    with job_mounts(cluster):
        stage = ["stage", ENTRY, "--nodes", "c1", "--via", "slurm"]
        wait_for(lambda: cluster.envmgr(stage).code == 0, what="a step that stages")
        assert images.source("c1") == images.copy("c1")
        own = do(cluster, "c1", "readlink /proc/1/ns/mnt")
        wait_for(lambda: (said := job("readlink", "/proc/self/ns/mnt").communicate()[0]) and said != own, what="a job")
        running = next(process for process in (job("sh", "-c", waits) for _ in range(100)) if began(process))
        images.run("stage", "--remove", ENTRY, "--nodes", "c1")
        assert images.source("c1") == ""
        do(cluster, "c1", "touch /var/tmp/job.out")
        assert running.communicate()[0] == f"1\n{images.install}\n"
        do(cluster, "c1", "rm /var/tmp/job.in /var/tmp/job.out")


@pytest.mark.always
def test_change_to_the_local_copy_leaves_no_gap(images: Images) -> None:
    """A file that is open, and one that is read all the time, while the device changes from the share to the disk."""
    script = f"""
    file=$(find {images.install} -type f -size +20k | head -n 1); sum=$(sha256sum <$file)
    exec 3<$file; dd bs=1 count=1 <&3 >/dev/null 2>&1
    until [ -e /run/stop ]; do [ "$(sha256sum <$file)" = "$sum" ] || echo wrong; done
    dd bs=1 count=1 <&3 2>/dev/null | wc -c"""
    do(images.cluster, "c1", "rm -f /run/stop")
    # The first mount waits for nobody: the reader begins once the image is mounted, before its copy is whole.
    with staging(images, bandwidth=4 << 20):
        process = images.cluster.start(
            "login", ["env", f"ENVMGR_SITE={SITE}/site.yaml", *_envmgr("stage", ENTRY, "--nodes", "c1")]
        )
        wait_for(lambda: images.source("c1") == images.image, what="a mount from the share")
        reader = images.cluster.start("c1", ["bash", "-c", script])
        process.communicate()
    assert images.source("c1") == images.copy("c1")
    do(images.cluster, "c1", "touch /run/stop")
    assert reader.communicate()[0] == "1\n"


def _envmgr(*argv: str) -> list[str]:
    import sys

    return [sys.executable, "-m", "envmgr", *argv]


@pytest.mark.always
def test_first_mount_waits_for_processes_and_names_them(images: Images) -> None:
    with images.working("c2", f"{images.install}/bin"):
        found = images.stage(code=1)
        assert found["c[1,3]"] == ("local", "")
        state, why = found["c2"]
        assert state == "waiting"
        assert re.fullmatch(r"waiting: \d+ of alice \(sleep\)", why)
        assert images.source("c2") == ""
        assert images.copy("c2")  # the copy came all the same
    assert images.stage() == {"c[1-3]": ("local", "")}


def test_library_that_is_mapped_is_never_there_twice(images: Images) -> None:
    """A mount over a running process would give it a second copy of a library that it loads once more, under another name."""
    library = do(images.cluster, "c1", f"find {images.install} -type f -name '*.so*' | head -n 1").strip()
    program = f"""if True:
        import ctypes, os, sys, time
        ctypes.CDLL(sys.argv[1], os.RTLD_LAZY)
        print("ready", flush=True)
        while not os.path.exists("/tmp/again"):
            time.sleep(0.1)
        ctypes.CDLL("/tmp/another.so", os.RTLD_LAZY)
        rows = [line.split() for line in open("/proc/self/maps") if "{library.rpartition("/")[2]}" in line]
        print(len({{(row[3], row[4]) for row in rows}}))
    """
    do(images.cluster, "c1", f"ln -s {library} /tmp/another.so")
    process = images.cluster.start("c1", ["python3", "-c", program, library], user="alice")
    wait_for(lambda: images.cluster.sh("c1", f"grep -l {library} /proc/[0-9]*/maps").stdout, what="a map")
    try:
        ((state, why),) = images.stage(nodes="c1", code=1).values()
        assert (state, why.rpartition(" ")[2]) == ("waiting", "(python3)")
    finally:
        do(images.cluster, "c1", "touch /tmp/again")
        said = process.communicate()[0]
        do(images.cluster, "c1", "rm /tmp/again /tmp/another.so")
    assert said.split() == ["ready", "1"]
    assert images.stage(nodes="c1") == {"c1": ("local", "")}


def test_unstage_names_the_process_in_use(images: Images) -> None:
    images.stage()
    with images.working("c3", images.install):
        done = images.unstage(code=3)
        ((nodes, (state, why)),) = rows_of(done).items()
        assert (nodes, state) == ("c3", "failed")
        assert re.fullmatch(r"in use: \d+ of alice \(sleep\)", why)
        assert images.source("c3") == images.copy("c3")


def test_damaged_image_on_the_share_is_never_mounted_from_the_disk(images: Images) -> None:
    whole = images.host_image.read_bytes()
    at = len(whole) // 2
    images.host_image.chmod(0o644)
    try:
        images.host_image.write_bytes(whole[:at] + b"?" * 4096 + whole[at + 4096 :])
        forget(images, "c1")
        ((state, why),) = images.stage(nodes="c1", code=3).values()
        assert state == "failed"
        assert why.startswith("damaged: the copy has sha256 ")
        assert do(images.cluster, "c1", f"ls {LOCAL}/*.sqfs* 2>/dev/null || :") == ""
        assert images.source("c1") == ""  # the shared tree is read
    finally:
        images.host_image.write_bytes(whole)
        images.host_image.chmod(0o444)
        forget(images, "c1")


def test_damaged_copy_is_found_by_the_audit_and_its_hint_mends_it(images: Images) -> None:
    images.stage()
    do(images.cluster, "c2", f"printf x | dd of={images.copy('c2')} bs=1 seek=4000 conv=notrunc")
    ((severity, nodes, text),) = images.audit(code=1)
    assert (severity, nodes, text) == ("error", "c2", "the image on this node's disk is damaged")
    (finding,) = images.audited.audit("--via", "ssh", "--check", "images")["findings"]
    command = re.search(r"`(envmgr stage --remove .*)`", finding["hint"])
    assert command
    for each in command[1].split(" && "):
        words = [word.strip("'") for word in each.split()[1:]]
        images.run(*words)
    assert images.audit(code=0) == []


def test_what_is_mounted_there_by_hand_stays_and_is_found(images: Images) -> None:
    do(
        images.cluster,
        "c1",
        f"mkdir -p /run/other/bin; mksquashfs /run/other /run/other.sqfs -quiet; mount -o loop,ro /run/other.sqfs {images.install}",
    )
    try:
        ((state, why),) = images.stage(nodes="c1", code=1).values()
        assert state == "other"
        assert why == "/run/other.sqfs is mounted there, which is not this image"
        assert images.audit(code=1) == [("error", "c1", "/run/other.sqfs is mounted there")]
    finally:
        do(images.cluster, "c1", f"umount {images.install}; rm -r /run/other /run/other.sqfs")


def test_full_disk_and_quota_say_so_and_the_share_serves(images: Images) -> None:
    with staging(images, quota=1_000_000):
        ((state, why),) = images.stage(nodes="c1", code=3).values()
    assert (state, why) == ("failed", "the quota of 1000000 bytes is full")
    assert images.source("c1") == images.image
    images.unstage()
    do(images.cluster, "c1", f"mount -t tmpfs -o size=66m tmpfs {LOCAL}")
    try:
        ((state, why),) = images.stage(nodes="c1", code=3).values()
        assert state == "failed"
        assert why.startswith("the local disk is full: ")
        assert images.source("c1") == images.image
    finally:
        images.unstage()
        do(images.cluster, "c1", f"umount -l {LOCAL}")


def test_no_loop_device_and_refused_mount_say_so(images: Images) -> None:
    with file_on(
        images.cluster,
        "c1",
        "/usr/sbin/losetup",
        "#!/bin/sh\necho 'losetup: cannot find an unused loop device' >&2\nexit 1\n",
    ):
        do(images.cluster, "c1", "chmod 755 /usr/sbin/losetup")
        ((state, why),) = images.stage(nodes="c1", code=3).values()
    assert (state, why) == ("failed", "no loop device: losetup: cannot find an unused loop device")


def test_copy_that_was_cut_off_goes_on(images: Images) -> None:
    """A slice is 64 MiB, more than this image: what was begun is begun anew, and never taken for whole."""
    images.stage("--dry-run")
    name = Path(images.image).name.removesuffix(".sqfs")
    do(
        images.cluster,
        "c1",
        f"mkdir -p {LOCAL}; head -c 3000000 /dev/urandom >{LOCAL}/hello+{name}.$(sha256sum {images.image} | cut -c1-8).sqfs.part",
    )
    assert images.stage(nodes="c1") == {"c1": ("local", "")}


def test_killed_at_any_moment_and_run_twice_at_once(images: Images) -> None:
    argv = ["env", f"ENVMGR_SITE={SITE}/site.yaml", *_envmgr("stage", ENTRY, "--nodes", "c[1-3]")]
    for pause in (0.4, 0.8, 1.2, 1.8):
        process = images.cluster.start("login", argv)
        time.sleep(pause)
        images.cluster.sh("login", "pkill -KILL -f '[-]m envmgr stage'")
        process.communicate()
    two = [images.cluster.start("login", argv) for _ in range(2)]
    for process in two:
        process.communicate()
        assert process.returncode == 0
    assert images.staged() == {"c[1-3]": ("local", "")}
    assert [images.source(node) for node in images.cluster.compute] == [
        images.copy(node) for node in images.cluster.compute
    ]


def test_sync_stages_what_the_site_says_and_no_more(images: Images) -> None:
    images.stage(nodes="c3")
    with staging(images, entries=[ENTRY], nodes="c[1-2]"):
        assert ("warning", "c[1-2]", f"{images.install} is read from the share") in images.audit()
        images.run("stage", "--sync")
        assert images.audit() == [("warning", "c3", f"{images.install} is staged")]
        (finding,) = images.audited.audit("--via", "ssh", "--check", "images")["findings"]
        command = re.search(r"`envmgr (stage --remove .*?)`", finding["hint"])
        assert command
        images.run(*command[1].split())
        assert images.audit() == []
        assert images.staged() == {"c[1-2]": ("local", "")}
    with staging(images, entries=["nothing/*"], nodes="c[1-3]"):
        done = images.run("stage", "--sync", "--format", "json")
        assert done.data["removed"] == [f"c[1-2]: {images.install}"]
    assert images.staged() == {}


def test_mounts_come_back_after_a_reboot(images: Images) -> None:
    with staging(images, nodes="c[1-3]"):
        images.run("node-setup", "--apply", "--nodes", "c1")
        images.stage(nodes="c1")
        do(images.cluster, "c1", f"umount {images.install}")  # all that a reboot takes, beside the loop device
        assert images.source("c1") == ""
        do(images.cluster, "c1", "/etc/envmgr/node/images")
        assert images.source("c1") == images.copy("c1")
    images.audited.set_up("c1")
    do(images.cluster, "c1", "rm -f /etc/envmgr/node/images /etc/envmgr/node/images.sh")


def test_ordinary_user_sees_an_image_alone(images: Images) -> None:
    """Its process ends with the command, and nobody else sees the mount."""
    argv = [
        "stage",
        ENTRY,
        "--private",
        "--",
        "sh",
        "-c",
        f"grep squashfuse /proc/self/mountinfo; {images.install}/bin/python -c '{PREFIX}'; exit 7",
    ]
    # /dev/fuse is open to all users where a distribution has made it.
    do(images.cluster, "login", "mknod -m 666 /run/fuse c 10 229; mount --bind /run/fuse /dev/fuse")
    try:
        done = images.cluster.envmgr(argv, user="alice")
    finally:
        do(images.cluster, "login", "umount /dev/fuse; rm /run/fuse")
    assert done.code == 7, done.stderr
    assert "fuse.squashfuse" in done.stdout
    assert images.install in done.stdout
    assert soon(lambda: not any("squashfuse" in line for line in images.cluster.processes("login")))
    assert images.source("login") == ""


def test_without_ssh_between_nodes_this_host_sends_and_that_is_said(images: Images) -> None:
    key = "/root/.ssh/id_ed25519"
    for node in images.cluster.compute:
        do(images.cluster, node, f"mv {key} {key}.away")
    try:
        done = images.run("stage", ENTRY, "--nodes", "c[1-3]", "--format", "json")
        assert rows_of(done) == {"c[1-3]": ("local", "")}
        assert (
            done.data["way"]
            == "from this host, as nodes cannot reach each other by ssh as root: the share is read once"
        )
    finally:
        for node in images.cluster.compute:
            do(images.cluster, node, f"mv {key}.away {key}")


def test_stage_makes_an_image_that_is_missing(images: Images) -> None:
    folder = f"{images.cluster.prefix}/images/hello"
    before = do(images.cluster, "login", f"ls {folder}")
    look = images.run("stage", "hello/2.0", "--nodes", "c1", "--dry-run")
    assert re.search(r"hello/2\.0 has no image of store/hello/2\.0-\w{8}: it would be made\n", look.stderr)
    assert do(images.cluster, "login", f"ls {folder}") == before
    assert "image-missing" in images.run("stage", "--private", "hello/2.0", "--", "true", code=3).stderr
    done = images.run("stage", "hello/2.0", "--nodes", "c1", "--format", "json")
    assert rows_of(done) == {"c1": ("local", "")}
    assert do(images.cluster, "login", f"stat -c %U {folder}/2.0-*.sqfs") == "rsw\n"  # the build user


@contextmanager
def counted(images: Images) -> Iterator[dict[str, int]]:
    """The calls that the file server gets within the block, by procedure."""
    found: dict[str, int] = {}
    process = images.cluster.start("fs1", ["python3", str(Path(nfs_calls.__file__))])
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        yield found
    finally:
        out, _ = process.communicate("")
        found.update(json.loads(out))


@pytest.mark.always
def test_import_from_a_staged_image_reads_nothing_of_the_share(images: Images) -> None:
    """Counted at the file server. Looking up the folders above the install still goes there."""
    program = f"find {images.install} -type f -exec cat {{}} + | wc -c; {images.install}/bin/python -c '{PREFIX}'"

    def run() -> str:
        forget(images, "c1")
        return do(images.cluster, "c1", program)

    with counted(images) as shared:
        before = run()
    images.stage(nodes="c1")
    with counted(images) as staged:
        assert run() == before
    assert shared["READ"] > 10
    assert staged.get("READ", 0) == staged.get("READDIRPLUS", 0) == staged.get("READLINK", 0) == 0
    assert staged["LOOKUP"] + staged.get("GETATTR", 0) < shared["LOOKUP"] / 2


def test_ordinary_user_who_audits_is_not_misled(images: Images) -> None:
    """The copies are root's: what another user cannot see is no fault."""
    images.stage(nodes="c1")
    with staging(images, entries=[ENTRY], nodes="c1"):
        done = images.cluster.envmgr(["audit", "--via", "ssh", "--check", "images", "--format", "json"], user="alice")
    assert done.code == 0, done.stdout
    assert [f["severity"] for f in done.data["findings"]] in ([], ["note"])


def test_link_in_the_place_of_an_install_leads_root_nowhere(images: Images) -> None:
    """Who writes the store is not root on nodes."""
    do(images.cluster, "c1", "mkdir /run/victim; echo kept >/run/victim/file")
    aside = f"{images.cluster.prefix}/store/hello/aside"
    do(images.cluster, "login", f"mv {images.install} {aside}; ln -s /run/victim {images.install}")
    try:
        forget(images, "c1")
        ((state, why),) = images.stage(nodes="c1", code=3).values()
    finally:
        do(images.cluster, "login", f"rm {images.install}; mv {aside} {images.install}")
        for node in ("login", *images.cluster.compute):
            forget(images, node)
    assert (state, why) == ("failed", "not mounted: it leads to /run/victim")
    assert do(images.cluster, "c1", "cat /run/victim/file; rm -r /run/victim; losetup -a") == "kept\n"


def test_look_changes_nothing_on_a_node(images: Images) -> None:
    for node in images.cluster.compute:
        do(images.cluster, node, f"rm -rf {LOCAL}")
    images.stage("--dry-run")
    assert images.staged() == {}
    for node in images.cluster.compute:
        assert do(images.cluster, node, f"[ -e {LOCAL} ] || echo none") == "none\n"
        do(images.cluster, node, f"mkdir -p {LOCAL}")


def test_unstage_leaves_what_is_not_its_own_and_says_so(images: Images) -> None:
    images.stage(nodes="c1")
    do(images.cluster, "c1", f"umount {images.install}; mount -t tmpfs none {images.install}")
    try:
        ((state, why),) = rows_of(images.unstage(code=1)).values()
        assert (state, why) == ("other", "none is mounted there, which is not this image")
    finally:
        do(images.cluster, "c1", f"umount {images.install}")


def test_unstage_that_only_looks_says_what_would_go(images: Images) -> None:
    images.stage(nodes="c1")
    assert f"would be removed: c1: {images.install}" in images.run("stage", "--remove", "--all", "--dry-run").stdout
    assert images.staged() == {"c1": ("local", "")}
