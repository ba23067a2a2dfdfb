"""A user's own site on the cluster's prefix, audited on real nodes: green, and each fault of the upstream's with its node."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.cluster import Cluster
from tests.helpers.cluster.site import SITE, settings
from tests.helpers.done import Done
from tests.helpers.sandbox import PYTHON
from tests.helpers.sites import with_backends
from tests.helpers.wheelhouse import Wheelhouse

HOME = Path("/home/alice")
BASE, APP = f"python/{PYTHON}", "app/1.0"


@dataclass
class Own:
    cluster: Cluster

    def envmgr(self, *argv: str) -> Done:
        """As alice, with her own site."""
        env = {"ENVMGR_SITE": str(HOME / "site/site.yaml"), "HOME": str(HOME)}
        return self.cluster.envmgr(argv, user="alice", env=env)

    def ok(self, *argv: str) -> Done:
        done = self.envmgr(*argv)
        assert done.code == 0, f"{argv}\n{done.stdout}{done.stderr}"
        return done

    def findings(self, *checks: str) -> list[tuple[str, str, str, str]]:
        names = [word for check in checks for word in ("--check", check)]
        found = self.envmgr("audit", "--format", "json", *names).data["findings"]
        return [(f["severity"], f["check"], f["nodes"], f["hint"]) for f in found]


@pytest.fixture
def own(cluster: Cluster) -> Iterator[Own]:
    """The cluster's site has a Python; on it stands `app/1.0` of alice, whose home all nodes have."""
    cluster.empty_prefix("rsw")
    cluster.write_site()
    cluster.recipe(BASE, [f"python {PYTHON}.*"])
    for verb in ("lock", "build"):
        done = cluster.envmgr([verb, BASE])
        assert done.code == 0, done.stderr
    home = cluster.folder / "home/alice"
    house = Wheelhouse(home / "house")
    house.wheel("one", files={"one_more.py": "word = 1\n"})
    site: dict[str, Any] = {
        **settings(cluster.compute),
        "name": "alice",
        "build_user": "alice",  # else the audit reports that alice can write the prefix
        "prefix": str(HOME / "sw"),
        "upstream": str(cluster.prefix),
        "catalogs": ["recipes", str(SITE.parent / "recipes")],
        "backends": {"wheels": {"indexes": {"house": {"url": f"file://{HOME}/house/simple"}}}},
    }
    folder = home / "site/recipes" / APP
    folder.mkdir(parents=True)
    (home / "site/site.yaml").write_text(json.dumps(with_backends(site)))
    software = {"description": "x", "homepage": "https://example.org", "licence": "MIT", "category": "test"}
    (folder.parent / "software.yaml").write_text(json.dumps(software))
    wanted = {"python": BASE, "requirements": ["one"], "indexes": ["house"]}
    (folder / "recipe.yaml").write_text(json.dumps({"schema": 1, "backend": "wheels", "input": wanted}))
    cluster.sh("login", f"chown -R alice: {HOME}/site {HOME}/house", check=True)
    made = Own(cluster)
    try:
        made.ok("lock", APP)
        made.ok("build", APP)
        yield made
    finally:
        cluster.sh("login", f"cd {HOME} && chmod -R u+w sw; rm -rf sw site house", check=True)
        shutil.rmtree(home / "sw", ignore_errors=True)


def test_user_s_site_on_the_cluster_s_prefix_is_audited_on_every_node(own: Own) -> None:
    cluster = own.cluster
    assert [p.parent.name for p in (cluster.folder / "home/alice/sw").glob("store/*/*.manifest.json")] == ["app"]
    # Her shells do not have her modules by themselves, which `contexts` reports; notes say what was not tried so.
    found = own.findings("upstream", "software", "generation", "mount")
    assert [each for each in found if each[0] != "note"] == []
    assert own.ok("verify", "--nodes", "c[1-3]").stdout
    lines = own.ok("shell-init", "bash").stdout
    cluster.write("login", HOME / "own.sh", lines)
    loads = f". {HOME}/own.sh; module load {APP} && python -c 'import one_more; print(one_more.word)'"
    jobs = cluster.exec("login", ["srun", "-N3", "bash", "-c", loads], user="alice")
    assert jobs.stdout.split() == ["1", "1", "1"], jobs.stderr

    (python,) = (path for path in cluster.host_prefix.glob("store/python/*") if path.is_dir())
    there = f"{cluster.prefix}/store/python/{python.name}"
    # Not mounted on one node.
    cluster.sh("c2", f"mount -t tmpfs tmpfs {cluster.prefix}", check=True)
    try:
        found = own.findings("upstream")
        hint = f"on the node: `findmnt -T {there}`: other nodes have it; is {cluster.prefix} mounted there?"
        assert found == [("error", "upstream", "c2", hint)]
        refused = cluster.exec("c2", ["bash", "-c", loads], user="alice")
        said = " ".join(refused.stderr.split())
        assert f"{APP} stands on {there} of another prefix, which is not on this machine" in said
        nodes = own.envmgr("verify", "--nodes", "c[1-3]")
        assert nodes.code == 1
        assert "c2" in nodes.stdout
    finally:
        cluster.sh("c2", f"umount {cluster.prefix}", check=True)
    # Another manifest, as of an install that was built again.
    manifest = python.with_name(f"{python.name}.manifest.json")
    kept = manifest.rename(manifest.with_name("kept"))
    try:
        manifest.write_bytes(kept.read_bytes() + b"\n")
        assert [(s, n) for s, _, n, _ in own.findings("upstream")] == [("error", "c[1-3]")]
        manifest.unlink()
        assert [(s, n) for s, _, n, _ in own.findings("upstream")] == [("error", "c[1-3]")]
        # Gone on all nodes.
        python.rename(python.with_name("away"))
        ((severity, check, where, hint),) = own.findings("upstream")
        assert (severity, check, where) == ("error", "upstream", "c[1-3]")
        assert hint == "`envmgr verify` tells what is left of it, and what to do"
        assert f"or `envmgr build {APP}` stands it on one of this prefix" in own.envmgr("verify").stdout
    finally:
        if python.with_name("away").exists():
            python.with_name("away").rename(python)
        kept.rename(manifest)
    assert own.findings("upstream") == []
    assert own.envmgr("verify").code == 0
