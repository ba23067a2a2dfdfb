"""A shell's start on a node that checks signatures, and on the same node without."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from benchmarks.measure import Amount, Claim
from envmgr.modules.nodesetup import node_files
from tests.helpers.node_scene import Scene
from tests.helpers.signed import SignedPrefix

_ROUNDS = 300
_TIMES = f"""
sh /etc/envmgr/node/check-flip
sed '/^signed/d' /etc/envmgr/node/settings >/etc/envmgr/unsigned; cp /etc/envmgr/node/settings /etc/envmgr/signed
[ "$(cut -d' ' -f1 /var/lib/envmgr/flip | head -n 1)" = signed ] || exit 1
round=0
while [ $round -lt {_ROUNDS} ]; do
  round=$((round + 1))
  for kind in unsigned signed; do
    cp /etc/envmgr/$kind /etc/envmgr/node/settings
    begin=$(date +%s%N); /etc/envmgr/node/pin sh bash i >/dev/null || exit; end=$(date +%s%N)
    echo $kind $((end - begin))
  done
done"""


def claims() -> list[Claim]:
    """The difference of the middle times, one start of each in turn. Needs to make mount namespaces."""
    with tempfile.TemporaryDirectory(prefix="envmgr-bench-") as name:
        folder = Path(name)
        made = SignedPrefix(folder)
        made.generation(1)
        made.flip(1)
        (folder / "lib").mkdir()
        scene = Scene(
            folder,
            f"signing: {{allowed_signers: {made.signers}}}\npolicies: {{unsigned: refuse}}\n",
            [f"mount --bind {folder}/lib /var/lib"],
        )
        for file in node_files(scene.site, made.signers.read_text()).files:
            path = folder / file.path.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.text)
            path.chmod(int(file.mode, 8))
        done = scene.run("sh", "-c", _TIMES)
    times: dict[str, list[int]] = {"unsigned": [], "signed": []}
    for line in done.stdout.splitlines():
        kind, nanoseconds = line.split()
        times[kind].append(int(nanoseconds))
    bare, signed = (statistics.median(each) / 1e9 for each in times.values())
    return [Amount("what signatures add to a shell's start", max(signed - bare, 0.0), 0.002)]
