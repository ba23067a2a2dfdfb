"""Two hosts that publish into one prefix over NFS, whose client keeps locks to itself: each has the site, the catalog and the key."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from envmgr.publish.flipfile import sequences
from envmgr.store.prefix import Prefix
from tests.helpers.cluster import Cluster
from tests.helpers.cluster.site import SITE
from tests.helpers.done import Done
from tests.helpers.signed import make_signing
from tests.helpers.waiting import DEADLINE, wait_for

HOSTS = ("c1", "c2")
OWN = {"c1": "hello/1.0", "c2": "greet/1.0"}
BOTH = "shared/1.0"
_SPECS = {"hello/1.0": "hello-prefix", "greet/1.0": "hello-activate", BOTH: "hello-prefix"}


def prepare(cluster: Cluster) -> None:
    """Nothing is published or built; locks are made, and the site, which signs, lies on both hosts."""
    _empty(cluster)
    with tempfile.TemporaryDirectory() as folder:
        made = make_signing(Path(folder))
        for name, path in {"key": made["key"], "allowed_signers": made["allowed_signers"]}.items():
            cluster.write("login", SITE.with_name(name), Path(path).read_text(), 0o600 if name == "key" else 0o644)
    signing = {"key": str(SITE.with_name("key")), "allowed_signers": str(SITE.with_name("allowed_signers"))}
    policies = {"min_free": 0, "stall_timeout": 60.0, "download_retries": 1, "keep_days": 0, "keep_generations": 4}
    cluster.write_site(groups={}, policies=policies, signing=signing)
    for entry, spec in _SPECS.items():
        cluster.recipe(entry, [spec])
    done = cluster.envmgr(["lock", *_SPECS])
    assert done.code == 0, done.stderr
    for path in cluster.exec("login", ["find", str(SITE.parent), "-type", "f"], check=True).stdout.split():
        text = cluster.exec("login", ["cat", path], check=True).stdout
        for host in HOSTS:
            cluster.write(host, path, text, 0o600 if path.endswith("/key") else 0o644)


def clean(cluster: Cluster) -> None:
    _empty(cluster)
    for host in HOSTS:
        cluster.exec(host, ["rm", "-rf", str(SITE.parent)])
    cluster.sh("login", f"cd {SITE.parent} && rm -rf key allowed_signers recipes/*", check=True)


def _empty(cluster: Cluster) -> None:
    """Until every host sees it: they keep what they saw for some seconds."""
    names = "generations current flips store var"
    cluster.sh("fs1", f"cd /export/sw && rm -rf {names} && chown rsw: .", check=True)
    for host in ("login", *HOSTS):
        wait_for(
            lambda host=host: not cluster.sh(host, f"cd /cluster/sw && ls -d {names}").stdout,  # type: ignore[misc]
            what=f"an empty prefix on {host}",
        )


def start(cluster: Cluster, host: str, *argv: str, **environ: str) -> subprocess.Popen[str]:
    return cluster.start(host, [sys.executable, "-m", "envmgr", *argv], env={"ENVMGR_SITE": str(SITE), **environ})


def end(process: subprocess.Popen[str]) -> Done:
    out, err = process.communicate(timeout=2 * DEADLINE)
    assert "Traceback" not in err, err
    return Done(process.returncode, out, err)


def published(cluster: Cluster, number: int | None = None) -> set[str]:
    """The entries of a generation, of what is current where none is named; as the file server has them."""
    folder = cluster.host_prefix / ("current" if number is None else f"generations/{number:04d}")
    return {*json.loads((folder / "generation.json").read_text())["entries"]}


def require_nothing_lost(cluster: Cluster, after: int = 0) -> int:
    """Each flip stands on the one before, and each publish added or took away what its host was asked for, and nothing else. `current`
    is what the last one made. Returns the number of the last one; those up to `after` were looked at before.
    """
    prefix = Prefix(cluster.host_prefix)
    numbers = sequences(prefix)
    rows: list[dict[str, Any]] = [json.loads((prefix.flips / f"{n:06d}.json").read_text()) for n in numbers]
    for before, row in zip([None, *rows], rows, strict=False):
        if row["sequence"] <= after:
            continue
        was = None if before is None else before["generation"]
        assert row["before"] == was, f"flip {row['sequence']} stands on {row['before']}, and {was} was current"
        if row["action"] == "publish" and (record := _record(prefix, row["generation"])) is not None:
            assert record["parent"] == was, f"generation {row['generation']} was made of {record['parent']}"
            if (parent := None if was is None else _record(prefix, was)) is not None:
                changed = {*record["entries"]} ^ {*parent["entries"]}
                assert changed <= {OWN[row["host"]], BOTH}, f"{row['host']} changed {changed}"
    if rows:
        assert prefix.current.readlink() == Path(f"generations/{rows[-1]['generation']:04d}")
        assert _record(prefix, rows[-1]["generation"]) is not None
    return numbers[-1] if numbers else 0


def _record(prefix: Prefix, number: int) -> dict[str, Any] | None:
    path = prefix.generation(number) / "generation.json"
    found: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None  # `gc` may have removed it
    return found
