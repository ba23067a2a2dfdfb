"""The figures of docs/scale.md that can be had on one machine: records of 100 generations with 1,000 entries, and 10,000 simulated nodes.

The nodes are those of benchmarks/audit.py. `make bench` leaves this out, as it claims nothing: `python -m benchmarks scale`.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from pathlib import Path

from benchmarks.audit import probe, sides, simulate
from benchmarks.measure import Claim, NotMeasured, Shown
from envmgr.publish import records
from envmgr.store.prefix import Prefix
from envmgr.system.files import remove_tree
from tests.helpers.cluster.needs import reason_to_skip
from tests.helpers.foreign_scene import make

ENTRIES, GENERATIONS = 1_000, 100
NODES = "127.0.[1-40].[1-250]"
_SHIMS = ("pip", "pip3", "pip3.11")


def claims() -> list[Claim]:
    return [*_records(), *_nodes()]


def _records() -> list[Claim]:
    root = Path(tempfile.mkdtemp(prefix="envmgr-bench-"))
    prefix = Prefix(root)
    try:
        text = _record().model_dump_json(indent=1)
        for number in range(1, GENERATIONS + 1):
            folder = prefix.generation(number)
            folder.mkdir(parents=True)
            (folder / records.RECORD).write_text(text.replace('"number": 1,', f'"number": {number},', 1))
        start = time.perf_counter()
        records.read_record(prefix, GENERATIONS)
        one = time.perf_counter() - start
        start = time.perf_counter()
        found = records.read_records(prefix)[0]
        every = time.perf_counter() - start
        assert len(found) == GENERATIONS, found
    finally:
        remove_tree(root)
    name = f"records of {ENTRIES:,} entries"
    return [
        Shown(f"{name}, one generation", f"{len(text) / 1e6:.1f} MB, read in {one:.2f} s"),
        Shown(f"{name}, {GENERATIONS} generations", f"read in {every:.1f} s, as `gc` does"),
    ]


def _record() -> records.GenerationRecord:
    """A generation as `publish` writes it, of entries with an install each."""
    names = [f"soft{number // 4}/{number % 4}.0" for number in range(ENTRIES)]
    paths = {name: f"store/{name}-{secrets.token_hex(4)}" for name in names}
    files = {f"modules/{name}.lua": secrets.token_hex(32) for name in names}
    files |= {f"shims/{name}/{shim}": secrets.token_hex(32) for name in names for shim in _SHIMS}
    raw = {
        "schema_version": 1,
        "number": 1,
        "parent": None,
        "created": "2026-01-01T00:00:00Z",
        "user": "root",
        "host": os.uname().nodename,
        "reason": "scale",
        "tools": {},
        "render": secrets.token_hex(32),
        "entries": {
            name: {
                "digest": secrets.token_hex(32),
                "path": path,
                "lock": secrets.token_hex(32),
                "fingerprint": secrets.token_hex(32),
                "needs": [],
            }
            for name, path in paths.items()
        },
        "files": files,
        "manifests": {path: secrets.token_hex(32) for path in paths.values()},
    }
    return records.GenerationRecord.model_validate(raw)


def _nodes() -> list[Claim]:
    name = "audit of 10,000 nodes"
    if reason := reason_to_skip():
        return [NotMeasured(name, reason)]
    root = Path(tempfile.mkdtemp(prefix="envmgr-bench-"))
    scene = make(root / "lab", ("spack",))
    try:
        options = ("--nodes", NODES, "--user", "alice")
        simulate(scene.cluster, probe(scene.cluster, *options, site=""))
        done = sides(scene.cluster, NODES, *options, site="")[0]()
        return [Shown(name, f"{done.seconds:.0f} s, {done.megabytes:.0f} MB, 64 at once")]
    finally:
        scene.cluster.down()
        remove_tree(root)
