"""Signed flips on a real cluster: node-setup puts the check on nodes, the audit and logins tell what it found."""

from __future__ import annotations

import pytest

from envmgr.modules.node_paths import CHECK_FLIP, FLIP_STAMP
from tests.helpers.audit_scene import Audited
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.xdist_group("audited")
KEY = "/root/flip_key"
SIGNERS = "/root/allowed_signers"
LOOK = ("--via", "ssh", "--check", "signature")


def checked(audited: Audited, node: str, state: str) -> None:
    look = f"{CHECK_FLIP} 0; cat {FLIP_STAMP}"
    wait_for(lambda: audited.cluster.sh(node, look, check=True).stdout.startswith(state), what=f"{node} to say {state}")


def test_a_flip_is_checked_on_every_node_and_what_was_not_signed_is_told(audited: Audited) -> None:
    cluster = audited.cluster
    nodes = ("login", *cluster.compute)
    cluster.sh(
        "login",
        f"""set -e; ssh-keygen -q -t ed25519 -N '' -f {KEY}
echo "anna namespaces=\\"envmgr-flip\\" $(cat {KEY}.pub)" >{SIGNERS}""",
        check=True,
    )
    cluster.write_site(signing={"key": KEY, "allowed_signers": SIGNERS}, policies={"unsigned": "refuse"})
    try:
        flip = f"flips/{audited.envmgr('history', '--format', 'json').data['flips'][-1]['sequence']:06d}.json.sig"
        found = audited.findings(*LOOK, code=1)
        assert ("error", "signature", "", flip, "unsigned: it is not there") in found
        assert ("error", "signature", "c[1-3]", FLIP_STAMP, "nothing there has checked what is published") in found
        audited.envmgr("sign")
        audited.set_up("login,c[1-3]")
        for node in nodes:
            checked(audited, node, "signed")
        assert audited.findings(*LOOK, code=0) == []
        folder = f"/cluster/sw/generations/{audited.generation:04d}/modules/hello"
        change = (
            f'cd {folder} && chmod u+w . && cp -p 2.0.lua /cluster/sw/aside && echo \'setenv("BAD", "1")\' >>2.0.lua'
        )
        cluster.sh("login", change, check=True)  # by a client: the server would not see what is changed below it
        try:
            checked(audited, "c2", "wrong")  # when its attribute cache lets it see
            assert audited.findings(*LOOK, code=1) == [
                ("error", "signature", "c2", FLIP_STAMP, "wrong: a file of it is not what was signed")
            ]
        finally:
            cluster.sh("login", f"cd {folder} && mv /cluster/sw/aside 2.0.lua && chmod u-w .", check=True)
        wait_for(lambda: cluster.envmgr(["verify"]).code == 0, what="login to see it as it was")
        before = audited.generation
        audited.envmgr("publish", "--remove", "hello/1.0")
        after = audited.generation
        wait_for(
            lambda: cluster.sh("c1", "readlink /cluster/sw/current").stdout.endswith(f"{after:04d}\n"),
            what="the new generation on c1",
        )
        login = ["bash", "-lic", "echo $ENVMGR_PIN"]
        done = cluster.exec("c1", login, user="alice")
        assert f"generation {after} of /cluster/sw was not checked yet: generation {before} is kept" in done.stderr
        assert done.stdout == f"/cluster/sw/generations/{before:04d}\n"
        checked(audited, "c1", f"signed {after} ")
        done = cluster.exec("c1", login, user="alice")
        assert (done.stdout, "envmgr: " in done.stderr) == (f"/cluster/sw/generations/{after:04d}\n", False)
    finally:
        cluster.envmgr(["node-setup", "--apply", "--undo", "--nodes", "login,c[1-3]"])
        cluster.write_site()
        audited.set_up("login,c[1-3]")
        cluster.sh("login", f"rm -f {KEY} {KEY}.pub {SIGNERS}")
        audited.envmgr("publish", "hello/1.0")
