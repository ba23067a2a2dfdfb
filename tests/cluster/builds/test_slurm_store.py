"""What Slurm jobs use is verified and kept."""

from __future__ import annotations

from tests.helpers.easybuild.slurm_workshop import GATED, Shop, leave
from tests.helpers.scenes import tamper
from tests.helpers.waiting import soon


def test_job_verifies_on_its_node_and_a_waiting_chain_keeps_what_it_uses_from_gc(shop: Shop) -> None:
    """Its submitter is killed: nothing but the requests says what the jobs need; a local build then takes over what they left."""
    shop.write_site(policies={"keep_days": 0, "min_free": 0})
    shop.toy("deep")
    shop.toy("held", GATED)
    shop.toy("high", builddependencies=[("deep", "1.0")], dependencies=[("held", "1.0")])
    shop.lock("deep", "high")
    assert shop.cluster.envmgr(["build", "deep/1.0", "--no-publish"]).code == 0
    shop.shut("held")
    process = shop.start("high", "--no-publish")
    assert soon(lambda: shop.runs("held"))
    leave(shop.cluster, process, "KILL")
    assert shop.table() == ["held", "high"]
    done = shop.cluster.envmgr(["gc", "--now", "--format", "json"])
    assert done.code == 0, done.stderr + done.stdout
    assert done.data["installs"] == []
    (manifest,) = shop.cluster.host_prefix.glob("store/deep/*.manifest.json")
    tamper(manifest.with_name(manifest.name.removesuffix(".manifest.json")) / "bin/toy", "poison")
    shop.open("held")
    assert soon(lambda: not shop.jobs())
    told = shop.build("high", "--no-publish")
    assert told.code == 3
    assert "error[install-differs]: /cluster/sw/store/deep/1.0-" in told.stderr
    assert "high" not in shop.store()
    manifest.unlink()
    assert shop.cluster.envmgr(["build", "high/1.0", "--no-publish"]).code == 0
    assert shop.cluster.envmgr(["gc", "--now"]).code == 0
    assert [name for name in shop.table() if name != "high"] == []  # a failure that was told stays for a day
