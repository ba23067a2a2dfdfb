"""`envmgr audit --nodes` where nothing is ours, beside `clush`: as benchmarks/audit.py does it, with its 1,000 simulated nodes.

No site, no prefix: modules that others made, in three folders of MODULEPATH. The nodes answer as c1 answers to this audit.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.audit import MEMORY, THOUSAND, Done, sides, simulate
from benchmarks.audit import probe as probe_text
from benchmarks.measure import Amount, Claim, NotMeasured, Ratio, Took, alternate
from envmgr.system.files import remove_tree
from tests.helpers.cluster.needs import reason_to_skip
from tests.helpers.foreign_scene import make

_OPTIONS = ("--nodes", THOUSAND, "--user", "alice")
_NO_SITE = ""


def claims(runs: int) -> list[Claim]:
    if reason := reason_to_skip():
        return [NotMeasured("audit that stands alone / clush", reason)]
    root = Path(tempfile.mkdtemp(prefix="envmgr-bench-"))
    scene = make(root / "lab", ("spack",))
    try:
        simulate(scene.cluster, probe_text(scene.cluster, *_OPTIONS, site=_NO_SITE))
        audit, clush = sides(scene.cluster, THOUSAND, *_OPTIONS, site=_NO_SITE)
        done: list[Done] = []

        def ours() -> Took:
            done.append(audit())
            return Took(done[-1].seconds)

        pairs = alternate(ours, lambda: Took(clush().seconds), min(runs, 2))
        return [
            Ratio("audit of 1,000 nodes without a prefix / clush", pairs, 1.3),
            Amount("audit of 1,000 nodes without a prefix", max(d.megabytes for d in done), MEMORY, "MB"),
        ]
    finally:
        scene.cluster.down()
        remove_tree(root)
