"""The short form of the campaign `collections`: users on nodes go on while generations come and go."""

from __future__ import annotations

import re

import pytest

from tests.helpers.cluster import faults
from tests.helpers.users import Users, make_scene, publish


def test_users_go_on_through_publish_rollback_gc_and_lose_only_what_was_removed(
    cluster_possible: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scene = make_scene(tmp_path_factory.mktemp("collections") / "lab", "bind")
    try:
        users = Users(scene)
        users.begin()
        first = scene.generation
        publish(scene)
        assert "\n".join(users.check()) == ""
        scene.envmgr("rollback")
        for _ in range(3):
            publish(scene)
        _gc_keeps_what_is_in_use(users, first)
        assert not (scene.cluster.host_prefix / f"generations/{first:04d}/modules").exists()
        assert "\n".join(users.check()) == ""
        scene.envmgr("publish", "--remove", "app/1.0")
        assert "\n".join(users.check(lacking=["app/1.0"])) == ""
        _audit(users)
    finally:
        scene.cluster.clear()  # the users' shells and jobs
        scene.cluster.down()


def _gc_keeps_what_is_in_use(users: Users, first: int) -> None:
    """Of the open shells and jobs of alice; then of a job that waits, and of what a node holds that does not answer; then nothing."""
    scene = users.scene
    refused = scene.cluster.envmgr(["gc"])
    assert (refused.code, refused.stderr.partition("]")[0]) == (2, "error[gc-keeps-no-days")
    done = scene.envmgr("gc", "--now", "--format", "json").data
    assert (done["generations"], done["kept_all"], done["asked"]) == ([], [], ["Slurm", "this host", "c[1-3]"])
    rows = {row["path"]: row["reason"] for row in done["kept"]}
    told = r"\S+ \(\d+\) of alice and \d+ more on this host; \S+ \(\d+\) of alice.* on c1; .*; and \d+ more"
    assert re.fullmatch(told, rows[f"generations/{first:04d}"])
    assert "\n".join(users.check()) == ""
    for talk in users.talks:
        talk.process.stdin.close()
        talk.process.wait()
    users.talks.clear()
    scene.cluster.wait_idle()
    held = scene.cluster.exec("login", ["sbatch", "--parsable", "--hold", "--wrap=true"], user="alice", check=True)
    done = scene.envmgr("gc", "--now", "--dry-run", "--format", "json").data
    assert (done["generations"], done["kept_all"]) == ([], [])
    (reason,) = {row["reason"] for row in done["kept"]}
    assert reason.startswith(f"job {held.stdout.strip()} of alice (pending), submitted 20")
    scene.cluster.exec("login", ["scancel", held.stdout.strip()], check=True)
    with faults.sshd_stopped(scene.cluster, "c2"):
        done = scene.envmgr("gc", "--now", "--format", "json").data
        assert (done["generations"], done["installs"], done["kept"]) == ([], [], [])
        assert [reason.partition(":")[0] for reason in done["kept_all"]] == ["c2"]
    assert first in scene.envmgr("gc", "--now", "--format", "json").data["generations"]


def _audit(users: Users) -> None:
    """The hook is looked at on each node, in each context."""
    scene = users.scene
    ours = "/etc/envmgr/node/lmod"
    scene.cluster.sh("c1", f"rm {ours}/*.lua", check=True)
    scene.cluster.write("c2", "/etc/profile.d/zz-site.sh", "export LMOD_PACKAGE_PATH=/site/lmod\n")
    scene.cluster.sh("c3", f"echo '-- of another release' >>{ours}/restore.lua", check=True)
    checks = ("--check", "saved-collections", "--check", "node-setup")
    found = [(f[0], f[2], f[4]) for f in scene.findings("--via", "ssh", *checks, code=1)]
    assert sorted(found) == [
        ("error", "c1", "not there"),
        ("error", "c3", "is not as node-setup writes it"),
        ("warning", "c2", "Lmod does not load envmgr's hook: LMOD_PACKAGE_PATH is /site/lmod"),
    ]
    scene.cluster.exec("c2", ["rm", "/etc/profile.d/zz-site.sh"], check=True)
    scene.set_up("c[1,3]")
    assert scene.findings("--via", "ssh", code=0) == []
