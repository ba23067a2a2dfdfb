"""Loading a module with the gate for GPUs and one without, on a node with a driver."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from benchmarks.measure import Amount, Claim
from envmgr.catalog.gpus import GpuNeeds
from envmgr.modules.lmod import find_lmod
from envmgr.modules.render import render_tree
from envmgr.modules.spec import ModuleSpec
from envmgr.modules.statements import ModulePolicies
from envmgr.system.files import shipped

# A node with a driver of the newest, one GPU, and what its service wrote.
_NODE = """
mount -t tmpfs none /sys/module; mkdir /sys/module/nvidia; echo 580.159.04 >/sys/module/nvidia/version
mount -t tmpfs none /run; mkdir -p /run/envmgr /run/lib; touch /run/lib/libcuda.so.1 /run/lib/libcuda.so.580.159.04
printf 'schema 1\\nboot %s\\ndriver 580.159.04\\nlibrary /run/lib\\ncuda 13.0\\ngpu nvidia 7.5 580.159.04 NVIDIA GeForce GTX 1650\\nend yes\\n' \
  "$(cat /proc/sys/kernel/random/boot_id)" >/run/envmgr/gpus
"""


def claims(rounds: int = 60) -> list[Claim]:
    """The difference of the middle times, one load of each in turn. Needs to make mount namespaces."""
    lmod = find_lmod(None, os.environ)
    with tempfile.TemporaryDirectory(prefix="envmgr-bench-") as name:
        root = Path(name)
        specs = [
            _spec("bare", None),
            _spec("gated", GpuNeeds(cuda="12.1", codes=("5.0", "7.0", "7.5"), driver="525.60.13")),
        ]
        policies = ModulePolicies(driver_gate="warn", user_site=False)
        for path, text in render_tree(specs, generation=1, policies=policies, templates=shipped("modulefiles")).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        loads = f"""
            for round in $(seq {rounds}); do for entry in bare gated; do
              begin=$(date +%s%N); said=$("{lmod.commands}/lmod" bash load $entry 2>&1 >/dev/null) || exit; end=$(date +%s%N)
              [ -z "$said" ] || exit 1
              echo $entry $((end - begin))
            done; done"""
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        done = subprocess.run(
            ["unshare", *user, "--mount", "bash", "-c", _NODE + loads],
            env=os.environ | {"MODULEPATH": name},
            check=True,
            capture_output=True,
            text=True,
            timeout=600,
        )
    times: dict[str, list[int]] = {"bare": [], "gated": []}
    for line in done.stdout.splitlines():
        entry, nanoseconds = line.split()
        times[entry].append(int(nanoseconds))
    bare, gated = (sorted(each)[len(each) // 2] / 1e9 for each in times.values())
    return [Amount("what the gate for GPUs adds to a load", max(gated - bare, 0.0), 0.005)]


def _spec(name: str, gpu: GpuNeeds | None) -> ModuleSpec:
    return ModuleSpec(
        name=name,
        version="1.0",
        root=f"/prefix/store/{name}/1.0-01234567",
        digest="0" * 64,
        description="A package",
        gpu=gpu,
    )
