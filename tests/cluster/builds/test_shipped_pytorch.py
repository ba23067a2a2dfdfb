"""The shipped pytorch/2.1-cuda11.8 on a cluster that reaches no channel: what a build says then, and what it makes from a mirror.

Its lock is built with stand-ins in place of its 123 packages. Only their hashes can be others than the shipped lock's: the first
test holds every other field, and every line, against it. Recipe and product are as they ship.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from envmgr.system.files import sha256_file
from tests.helpers.audit_scene import Audited
from tests.helpers.cluster import Cluster
from tests.helpers.cluster.disguises import fake_driver
from tests.helpers.cluster.site import SITE
from tests.helpers.done import Done
from tests.helpers.places import CACHE
from tests.helpers.shipped import CONDA_FORGE, ROOT
from tests.helpers.standin.from_lock import LOCK, SIDECAR, Derived, derive_lock
from tests.helpers.waiting import wait_for

ENTRY = "pytorch/2.1-cuda11.8"
SHIPPED = ROOT / ENTRY
FLIPPED = ("python", "xz")
MIRROR = Path("/home/mirror")
"""On the nodes: a folder of the file server's, as the homes are."""

# As much of these modules as the recipe's own test and a user's job ask for.
TORCH = """\
from torch import version

__version__ = "2.1.2"


class tensor:
    def __init__(self, rows):
        self.rows = list(rows) if isinstance(rows, range) else rows

    def __matmul__(self, other):
        columns = list(zip(*other.rows))
        return tensor([[sum(a * b for a, b in zip(row, column)) for column in columns] for row in self.rows])

    def sum(self):
        return tensor(sum(self.rows))

    def item(self):
        return self.rows

    def tolist(self):
        return self.rows


from_numpy = tensor
"""
OPS = """\
from torch import tensor


def _overlap(a, b):
    width, height = (max(0, min(a[i + 2], b[i + 2]) - max(a[i], b[i])) for i in (0, 1))
    area = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return width * height / (area - width * height)


def nms(boxes, scores, limit):
    kept = []
    for i in sorted(range(len(scores.rows)), key=lambda i: -scores.rows[i]):
        if all(_overlap(boxes.rows[i], boxes.rows[k]) <= limit for k in kept):
            kept.append(i)
    return tensor(kept)
"""
MODULES = {
    "numpy": {"numpy/__init__.py": "arange = range\n"},
    "pytorch": {"torch/__init__.py": TORCH, "torch/version.py": 'cuda = "11.8"\n'},
    "torchvision": {"torchvision/__init__.py": "from torchvision import ops\n", "torchvision/ops.py": OPS},
}
JOB = """\
#!/bin/bash
module load pytorch
python -c 'import sys, torch; print(torch.__version__, torch.version.cuda, sys.prefix)'
"""


@pytest.fixture(scope="module")
def scene(own_cluster: Cluster) -> Audited:
    """A cluster whose nodes reach no network and know no other entry."""
    return Audited(own_cluster)


@pytest.fixture(scope="module")
def derived(scene: Audited) -> Derived:
    """The mirror is where the nodes have MIRROR."""
    return derive_lock(SHIPPED, scene.cluster.folder / "home" / MIRROR.name, wheels=CACHE / "wheels", modules=MODULES)


def test_derived_lock_is_the_shipped_one_but_for_hashes(derived: Derived) -> None:
    shipped = {name: (SHIPPED / name).read_text() for name in (LOCK, SIDECAR)}
    found = {name: others(shipped[name], derived.texts[name]) for name in shipped}
    assert {label for label, _ in found[LOCK]} == {"md5:", "sha256:"}
    assert {label for label, _ in found[SIDECAR]} == {'"lock_sha256":'}
    assert len(found[LOCK]) == 2 * 123

    old, new = yaml.safe_load(shipped[LOCK]), yaml.safe_load(derived.texts[LOCK])
    hashes = {p["url"]: (p.pop("hash"), q.pop("hash")) for p, q in zip(old["package"], new["package"], strict=True)}
    assert new == old
    assert len(hashes) == 123
    for url, (before, after) in hashes.items():
        assert before.keys() == after.keys() == {"md5", "sha256"}
        assert all(before[field] != after[field] for field in before)
        assert after == {field: derived.records[url][field] for field in after}


def others(before: str, after: str) -> list[tuple[str, str]]:
    """The lines that are others: the word that they begin with, and the rest."""
    pairs = zip(before.splitlines(), after.splitlines(), strict=True)
    return [tuple(new.split(maxsplit=1)) for old, new in pairs if new != old]  # type: ignore[misc]


@pytest.fixture(scope="module")
def refused(scene: Audited) -> str:
    """What a build of the shipped entry says, from `error` on, on a site that names no mirror."""
    scene.cluster.write_site()
    done = scene.cluster.envmgr(["build", ENTRY])
    assert done.code == 3
    assert done.stdout == ""
    return re.sub(r"log: .*", "log: LOG", done.stderr[done.stderr.index("error[") :])


def test_shipped_entry_without_a_channel_says_what_can_be_done_instead(refused: str) -> None:
    reason = re.search(rf"^  ({re.escape(CONDA_FORGE)}/\S+): (.*)$", refused, re.MULTILINE)
    assert reason, refused
    url = reason[1]  # of many that are asked for at once, the one that failed first
    assert url in (SHIPPED / LOCK).read_text()
    assert refused == (
        f"error[no-network]: cannot fetch {url}\n"
        f"  {url}: {reason[2]}\n"
        f"  {ENTRY} was not built\n"
        "  log: LOG\n"
        "\n"
        "hint: give it a mirror in site.yaml (backends.conda.channels.<name>.mirrors takes URLs and folders), or bring the files from "
        f"a machine with a network and the same catalog: `envmgr fetch {ENTRY}` there, `envmgr fetch {ENTRY} --file FOLDER` here\n"
    )


@contextmanager
def one_byte_flipped(path: Path) -> Iterator[None]:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])
    try:
        yield
    finally:
        path.write_bytes(data)


@pytest.fixture(scope="module")
def catalog(scene: Audited, derived: Derived, refused: str) -> Path:
    """The entry's folder on the login node: a copy of the shipped recipe, the derived lock in place of the shipped one.

    The site names the mirror, as the error said that was told without it.
    """
    scene.cluster.write_site(channels={"conda-forge": {"url": CONDA_FORGE, "mirrors": [str(MIRROR)]}})
    scene.envmgr("copy", ENTRY)
    folder = SITE.parent / "recipes" / ENTRY
    for name, text in derived.texts.items():
        scene.cluster.write("login", folder / name, text)
    recipe = scene.cluster.exec("login", ["cat", folder / "recipe.yaml"], check=True).stdout
    assert recipe == (SHIPPED / "recipe.yaml").read_text()
    return folder


@pytest.fixture(scope="module")
def flipped(scene: Audited, derived: Derived, catalog: Path) -> dict[str, tuple[Done, str, str]]:
    """What a build says of a package with another byte, its file's name, the sha256 of that: before anything is built."""
    said = {}
    for name in FLIPPED:
        url = next(u for u, r in derived.records.items() if r["name"] == name)
        path = derived.mirror / url.removeprefix(f"{CONDA_FORGE}/")
        with one_byte_flipped(path):
            said[name] = scene.cluster.envmgr(["build", ENTRY]), path.name, sha256_file(path)
        assert not (scene.cluster.host_prefix / "current").is_symlink()
        assert not list(scene.cluster.host_prefix.glob("store/*/*"))
    return said


@pytest.mark.parametrize("name", FLIPPED)
def test_package_with_one_byte_flipped_is_refused(
    derived: Derived, flipped: dict[str, tuple[Done, str, str]], name: str
) -> None:
    """A `.conda` and a `.tar.bz2`: of another content, and the right length."""
    done, file, found = flipped[name]
    record = next(r for r in derived.records.values() if r["name"] == name)
    assert done.code == 3
    assert f"error[wrong-sha256]: {file}: what arrived is not what the lock names\n" in done.stderr
    assert f": sha256 is {found}, the lock says {record['sha256']}\n" in done.stderr


@pytest.fixture(scope="module")
def published(scene: Audited, catalog: Path, flipped: object) -> dict[str, Any]:
    """The entry's build as JSON has it; nodes are set up then."""
    built = scene.envmgr("build", ENTRY, "--format", "json").data
    scene.set_up("login,c[1-3]")
    scene.task_prolog()
    return built


def test_entry_of_123_packages_is_built_loaded_in_a_job_and_audited(scene: Audited, published: dict[str, Any]) -> None:
    assert scene.envmgr("check", ENTRY).code == 0
    (step,) = published["steps"]
    assert len(step["planned"]["packages"]) == 123
    assert [(t["test"], t["status"]) for t in published["tests"]] == [("import", "passed"), ("gpu", "skipped")]

    scene.cluster.write("login", "/home/alice/job.sh", JOB)
    for node in scene.cluster.compute:
        scene.cluster.sh("login", f"sbatch --export=NONE -w {node} -o {node}.out job.sh", "alice", check=True)
    wait_for(lambda: not scene.cluster.exec("login", ["squeue", "-h"], check=True).stdout, what="the end of the jobs")
    install = f"{scene.cluster.prefix}/{step['planned']['path']}"
    for node in scene.cluster.compute:
        assert (scene.cluster.folder / f"home/alice/{node}.out").read_text().endswith(f"2.1.2 11.8 {install}\n")

    audit = scene.audit("--via", "both", "--modules", ENTRY, code=0)
    assert audit["findings"] == []
    assert audit["matrix"] == [{"entry": ENTRY, "nodes": "c[1-3]", "fit": True, "reasons": ["without GPU"]}]


def test_driver_below_what_the_recipe_requires_is_told_at_load_and_by_the_audit(
    scene: Audited, published: dict[str, Any]
) -> None:
    with fake_driver(scene.cluster, "c2", "440.33.01", compute_capability="7.5"):
        loaded = scene.cluster.exec(
            "c2", ["bash", "-lc", "module load pytorch && python -c 'import torch'"], user="alice"
        )
        audit = scene.audit("--check", "fitness", "--check", "software", "--via", "ssh", code=1)
    assert loaded.returncode == 0
    needs = f"{ENTRY} on c2: its GPU programs fail here: driver 440.33.01 is older than 450.80.02, the first for its CUDA 11.8."
    assert needs in " ".join(loaded.stderr.split())
    assert [(f["severity"], f["nodes"]) for f in audit["findings"] if f["where"] == ENTRY] == [("error", "c2")]
    assert {row["nodes"]: row["fit"] for row in audit["matrix"]} == {"c[1,3]": True, "c2": False}


def test_what_a_load_says_of_gpus_is_no_difference_between_nodes(scene: Audited, published: dict[str, Any]) -> None:
    """The note names its node, and it is said where users load the module: the audit tells of the driver, and of nothing else."""
    with ExitStack() as stack:
        for node, version in (("c1", "515.105.01"), ("c2", "515.105.01"), ("c3", "535.183.01")):
            stack.enter_context(fake_driver(scene.cluster, node, version, compute_capability="7.5"))
        scene.set_up("c[1-3]")
        loaded = scene.cluster.exec("c1", ["bash", "-lc", "module load pytorch"], user="alice")
        audit = scene.audit("--modules", ENTRY)
        shown = scene.envmgr("list", ENTRY, "--format", "json").data
    note = f"Note: {ENTRY} on c1: whether its GPU programs run here is not known: what it has code for is not known."
    assert note in " ".join(loaded.stderr.split())
    found = {(f["severity"], f["check"], f["nodes"]) for f in audit["findings"]}
    # c3 has another driver than most, and what came with it.
    assert found - {("note", "inventory", "c3")} == {("warning", "inventory", "c3")}
    (row,) = audit["matrix"]
    assert (row["nodes"], row["fit"]) == ("c[1-3]", None)
    assert row["reasons"] == ["not known: what it has code for is not known"]
    reason = "what it has code for is not known"
    assert shown["gpu"]["nodes"] == [{"nodes": "c[1-3]", "verdict": "unknown", "reason": reason}]
