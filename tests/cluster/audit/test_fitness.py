"""What real nodes tell of driver, GPUs, processor and libraries."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from envmgr.audit.checks import fitness, libraries
from envmgr.audit.fit.install_facts import missing_libraries
from envmgr.audit.fit.matrix import node_facts
from envmgr.catalog.gpus import Gpu
from envmgr.probe.shell import read_answer
from tests.helpers.cluster import Cluster, faults
from tests.helpers.evidence import audit_plan, probe_script, published_link, site
from tests.helpers.places import ROOT
from tests.helpers.waiting import DEADLINE


def ask(cluster: Cluster, node: str, roots: dict[str, str] | None = None, ldd: str = "sample") -> dict[str, str]:
    """What the joined probe of these checks tells on a node; it must not complain."""
    where = site(audit={"ldd": ldd, "user": "alice"}).model_copy(update={"prefix": cluster.prefix, "build_user": "rsw"})
    plan = audit_plan(where, samples=tuple(roots or {}), roots=roots or {})
    done = cluster.exec(node, ["/bin/sh", "-s"], stdin=probe_script([fitness, libraries], plan))
    assert done.stderr == ""
    facts, _, _ = read_answer(done.stdout)
    assert "end" not in facts
    return dict(facts)


def gtx(arch: str, driver: str) -> Gpu:
    return Gpu(vendor="nvidia", arch=arch, name="NVIDIA GeForce GTX 1650", driver=driver)


@pytest.fixture
def published(cluster: Cluster) -> Iterator[None]:
    with published_link(cluster):
        yield


def test_healthy_nodes_tell_the_same(cluster: Cluster, published: None) -> None:
    answers = [ask(cluster, node) for node in cluster.compute]
    assert answers[0] == answers[1] == answers[2]
    found = node_facts(answers[0])
    assert found is not None
    assert (found.driver, found.gpus, found.library, found.arch) == ("", (), "", "x86_64")
    glibc = subprocess.run(["getconf", "GNU_LIBC_VERSION"], capture_output=True, text=True, check=True).stdout.split()[
        1
    ]
    assert (found.glibc, found.os_id) == (glibc, "debian")


def test_fake_driver_and_gpu_are_seen(cluster: Cluster) -> None:
    with faults.fake_driver(cluster, "c2", "470.57.02", compute_capability="7.5"):
        found = node_facts(ask(cluster, "c2"))
    assert found is not None
    assert (found.driver, found.library, found.gpus) == ("470.57.02", "470.57.02", (gtx("7.5", "470.57.02"),))
    after = node_facts(ask(cluster, "c2"))
    assert after is not None
    assert after.driver == ""


@contextmanager
def driver_files(cluster: Cluster, node: str, version: str, smi: str = "") -> Iterator[None]:
    """A driver that tells its version in /proc only, one GPU there, and an `nvidia-smi` of our own."""
    with faults.fake_driver(cluster, node, "0"):
        cluster.sh(node, f"rm /sys/module/nvidia/version; echo '{version}' >/proc/driver/nvidia/version", check=True)
        if smi:
            cluster.write(node, "/usr/local/bin/nvidia-smi", f"#!/bin/sh\n{smi}\n", 0o755)
        yield


@pytest.mark.parametrize(
    "line",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  565.57.01  Sun May 12 19:39:15 UTC 2024",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.57.01  Release Build  (dvs-builder@U16-I3-B03-4-3)",
    ],
)
def test_driver_without_sysfs_and_nvidia_smi(cluster: Cluster, line: str) -> None:
    with driver_files(cluster, "c2", line):
        found = node_facts(ask(cluster, "c2"))
    assert found is not None
    assert (found.driver, found.gpus) == ("565.57.01", (gtx("", "565.57.01"),))


def test_old_nvidia_smi_without_compute_cap(cluster: Cluster) -> None:
    smi = """case $1 in *compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2 ;; esac
echo 'NVIDIA GeForce GTX 1650'"""
    with driver_files(cluster, "c2", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue", smi):
        facts = ask(cluster, "c2")
    assert "fitness.smi" not in facts
    assert facts["fitness.gpus"] == "nvidia ? 470.57.02 NVIDIA GeForce GTX 1650"


def test_gpus_that_are_not_all_shown_keep_their_names(cluster: Cluster) -> None:
    """A job that has the second of two kinds: the other one is the one that it was not shown."""
    smi = "echo 'NVIDIA A100-SXM4-80GB, 8.0'"
    with driver_files(cluster, "c2", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue", smi):
        for number, name in ((2, "NVIDIA A100-SXM4-80GB"), (3, "NVIDIA A100-SXM4-80GB")):
            file = f"/proc/driver/nvidia/gpus/0000:0{number}:00.0/information"
            cluster.write("c2", file, f"Model: \t\t {name}\nIRQ: 1\n")
        facts = ask(cluster, "c2")
    assert facts["fitness.gpus"].splitlines() == [
        "nvidia 8.0 535.54.03 NVIDIA A100-SXM4-80GB",
        "nvidia ? 535.54.03 NVIDIA A100-SXM4-80GB",
        "nvidia ? 535.54.03 NVIDIA GeForce GTX 1650",
    ]


def test_nvidia_smi_that_fails_is_told_with_its_words(cluster: Cluster) -> None:
    smi = "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18"
    with driver_files(cluster, "c2", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue", smi):
        facts = ask(cluster, "c2")
    assert facts["fitness.smi"] == "Failed to initialize NVML: Driver/library version mismatch"
    assert facts["fitness.gpus"] == "nvidia ? 470.57.02 NVIDIA GeForce GTX 1650"


def test_nvidia_smi_that_hangs_costs_no_other_fact(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitness, "SMI_SECONDS", 1)
    with driver_files(
        cluster,
        "c2",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue",
        "echo $$ >/run/smi.pid; exec sleep 1200",
    ):
        facts = ask(cluster, "c2")
        cluster.sh("c2", "kill $(cat /run/smi.pid)", check=True)
    assert facts["fitness.smi"] == "hung"
    assert facts["fitness.arch"] == "x86_64"


def test_old_processor_is_seen(cluster: Cluster) -> None:
    with faults.fake_cpu(cluster, "c3"):
        found = node_facts(ask(cluster, "c3"))
    assert found is not None
    assert found.cpu_level == "x86-64"


_CODE = """
echo 'int zz(void) { return 1; }' >z.c
echo 'int zz(void); int main(void) { return zz(); }' >m.c
for soname in libgone.so.1 libown.so.2 libcuda.so.1; do cc -shared -fPIC z.c -o $soname -Wl,-soname,$soname; done
mkdir -p root/bin root/lib/plugins
cc m.c -o root/bin/gone ./libgone.so.1
cc m.c -o root/bin/own ./libown.so.2
cc m.c -o root/bin/gpu ./libcuda.so.1
cc -shared -fPIC m.c -o root/lib/libdeep.so ./libgone.so.1
cc -shared -fPIC m.c -o root/lib/plugins/hidden.so ./libgone.so.1
cp libown.so.2 root/lib/plugins/
printf '#!/bin/sh\\ntouch /tmp/ldd-ran-it\\n' >root/bin/script
chmod -R a+rX,a+x root/bin
"""


def test_ldd_finds_what_a_node_lacks(cluster: Cluster, published: None, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    subprocess.run(["bash", "-euc", _CODE], cwd=tmp_path, check=True)
    store = cluster.host_prefix / "libraries-test"
    shutil.copytree(tmp_path / "root", store)
    try:
        facts = ask(cluster, "c1", {"t/1": f"{cluster.prefix}/{store.name}", "gone/1": "/nowhere"})
        full = ask(cluster, "c1", {"t/1": f"{cluster.prefix}/{store.name}"}, ldd="full")
    finally:
        shutil.rmtree(store)
    assert facts["libraries.missing.t/1"].splitlines() == [
        "libcuda.so.1 bin/gpu",
        "libgone.so.1 bin/gone",
        "libgone.so.1 lib/libdeep.so",
    ]
    assert facts["libraries.looked.t/1"] == "yes"
    assert "libraries.looked.gone/1" not in facts
    assert missing_libraries("t/1", facts) == {"libgone.so.1": ["bin/gone", "lib/libdeep.so"]}
    assert "libgone.so.1 lib/plugins/hidden.so" in full["libraries.missing.t/1"].splitlines()
    assert not Path("/tmp/ldd-ran-it").exists()


def test_facts_are_not_waited_for_on_a_hung_prefix(sshfs_cluster: Cluster) -> None:
    code = """
import sys
sys.path.insert(0, {project!r})
from pathlib import Path
from envmgr.catalog.fitness import NodeFacts
from envmgr.store.node_facts import save_node_facts
from tests.helpers.evidence import site
where = site().model_copy(update={{"prefix": Path({prefix!r}), "build_user": "rsw"}})
print(save_node_facts(where, {{NodeFacts(): ["c1"]}}, {{}}, 1.0, seconds=1.0))
"""
    text = code.format(project=str(ROOT), prefix=str(sshfs_cluster.prefix))
    with faults.hung(sshfs_cluster, "c1"):
        done = sshfs_cluster.exec("c1", [sys.executable, "-c", text], timeout=DEADLINE)
    assert (done.stdout, done.stderr) == (f"{sshfs_cluster.prefix} does not answer\n", "")
