"""A node that pretends: another content of one file, another Lmod, a driver and a processor that it does not have.

Everything is covered by a mount and nothing overwritten, so that undoing cannot miss anything.
"""

from __future__ import annotations

import itertools
import platform
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.helpers.cluster.cluster import Cluster
from tests.helpers.waiting import wait_for

count = itertools.count()

# Flags of the x86-64 levels after the first. Source: System V ABI, AMD64 supplement, micro-architecture levels.
V2_FLAGS = frozenset({"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"})
V3_FLAGS = frozenset({"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"})
V4_FLAGS = frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})


def do(cluster: Cluster, node: str, script: str) -> str:
    """Run a script as root on a node; it must succeed. Returns its stdout."""
    return cluster.exec(node, ["bash", "-euc", script], check=True).stdout


@contextmanager
def shadowed_file(cluster: Cluster, node: str, path: str | Path, text: str) -> Iterator[None]:
    """The file has this content on this node, with its owner and mode; no file there is what it was once this ends."""
    copy = f"/run/shadow-{next(count)}"
    real = do(cluster, node, f"readlink -e {path}").strip()
    cluster.write(node, copy, text)
    do(cluster, node, f"chown --reference={real} {copy}; chmod --reference={real} {copy}; mount --bind {copy} {real}")
    try:
        yield
    finally:
        do(cluster, node, f"umount -l {real}; rm {copy}")


@contextmanager
def file_on(cluster: Cluster, node: str, path: str, text: str) -> Iterator[None]:
    """A file in place of what is there, if anything is: that is back once this ends."""
    parked = f"/run/parked-{next(count)}"
    do(cluster, node, f"[ ! -e {path} ] || cp -a {path} {parked}")
    cluster.write(node, path, text)
    try:
        yield
    finally:
        do(cluster, node, f"if [ -e {parked} ]; then mv {parked} {path}; else rm -f {path}; fi")


@contextmanager
def prefixed(cluster: Cluster, node: str, path: Path, text: str) -> Iterator[None]:
    """The file begins with `text`; nothing where there is no such file."""
    before = cluster.exec(node, ["cat", path])
    if before.returncode:
        yield
        return
    with shadowed_file(cluster, node, path, text + before.stdout):
        yield


@contextmanager
def other_lmod(cluster: Cluster, node: str, version: str = "8.7.19") -> Iterator[None]:
    """This node's Lmod says that it is another version: in its program, and in LMOD_VERSION."""
    copy = f"/run/lmod-{next(count)}"
    do(
        cluster,
        node,
        rf"""
        cp -a /usr/share/lmod {copy}; cd {copy}/lmod
        old=$(sed -n 's/.*M\.tag.*"\(.*\)".*/\1/p' libexec/Version.lua)
        [ -n "$old" ] && sed -i "s/$old/{version}/g" libexec/Version.lua
        sed -i "/LMOD_VERSION/s/$old/{version}/" $(grep -rl LMOD_VERSION init)
        cd /; mount --bind {copy} /usr/share/lmod""",
    )
    try:
        yield
    finally:
        do(cluster, node, f"umount -l /usr/share/lmod; rm -rf {copy}")


_LIBCUDA = f"/usr/lib/{platform.machine()}-linux-gnu/libcuda.so"


@contextmanager
def fake_driver(
    cluster: Cluster, node: str, version: str, *, compute_capability: str | None = None, shown: str = "true"
) -> Iterator[None]:
    """The kernel has an NVIDIA driver of this version loaded, with its library and one GPU; with a compute capability there is
    `nvidia-smi`, too, which lists the GPU where the shell command `shown` succeeds (`IN_ITS_JOB`: by Slurm's device constraint)."""
    says = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Thu Jan  1 00:00:00 UTC 1970"
    do(
        cluster,
        node,
        f"""
        for folder in /sys/module /proc/driver; do mount -t tmpfs -o mode=755 tmpfs $folder; mkdir $folder/nvidia; done
        echo '{version}' >/sys/module/nvidia/version
        echo '{says}' >/proc/driver/nvidia/version
        mkdir -p /proc/driver/nvidia/gpus/0000:01:00.0
        printf 'Model: \\t\\t NVIDIA GeForce GTX 1650\\nIRQ: 1\\n' >/proc/driver/nvidia/gpus/0000:01:00.0/information
        touch {_LIBCUDA}.{version}; ln -s {_LIBCUDA}.{version} {_LIBCUDA}.1""",
    )
    if compute_capability:
        cluster.write(node, "/usr/local/bin/nvidia-smi", _SMI % (version, compute_capability, shown), 0o755)
    try:
        yield
    finally:
        do(cluster, node, f"umount -l /sys/module /proc/driver; rm -f /usr/local/bin/nvidia-smi {_LIBCUDA}.*")


IN_ITS_JOB = '[ -n "${SLURM_JOB_GPUS-}" ]'
"""Shown to a batch job that asked for a GPU, and to nobody else."""

# Answers `nvidia-smi --query-gpu=FIELD,… --format=csv,noheader`, for one GPU.
_SMI = """\
#!/bin/sh
version=%s capability=%s
%s || { echo 'No devices were found'; exit 6; }
for word; do
    case $word in --query-gpu=*) fields=${word#*=} ;; esac
done
[ -n "${fields-}" ] || { echo "NVIDIA-SMI $version    Driver Version: $version    CUDA Version: N/A"; exit 0; }
line=
for field in $(echo "$fields" | tr , ' '); do
    case $field in
    driver_version) value=$version ;;
    compute_cap) value=$capability ;;
    name) value='NVIDIA GeForce GTX 1650' ;;
    index) value=0 ;;
    count) value=1 ;;
    *) value='[N/A]' ;;
    esac
    line="$line${line:+, }$value"
done
echo "$line"
"""


@contextmanager
def fake_cpu(cluster: Cluster, node: str, without: Collection[str] = V2_FLAGS | V3_FLAGS | V4_FLAGS) -> Iterator[None]:
    """/proc/cpuinfo does not list these flags: by default x86-64-v1 is left. What asks the processor itself sees no change."""

    def fewer(line: str) -> str:
        name, colon, words = line.partition(":")
        return (
            f"{name}{colon} {' '.join(w for w in words.split() if w not in without)}"
            if name.strip() == "flags"
            else line
        )

    text = do(cluster, node, "cat /proc/cpuinfo")
    with shadowed_file(cluster, node, "/proc/cpuinfo", "\n".join(map(fewer, text.split("\n")))):
        yield


@contextmanager
def slurm_gpu(cluster: Cluster, node: str, kind: str = "gtx1650", *, partition: str = "all") -> Iterator[None]:
    """Slurm has one GPU of this kind on the node to give to jobs. In another partition than `all` the node is in that one alone, which
    is not the default.

    GresTypes, and the Gres of nodes, are read when Slurm's daemons start: they are started anew, before and after.
    """
    conf = [_with_gpu(line, node, kind, cluster.compute, partition) for line in _slurm_conf(cluster)]
    gres = f"NodeName={node} Name=gpu Type={kind} File=/dev/nvidia0\n"
    with ExitStack() as stack:
        stack.callback(_restart_slurm, cluster)
        for each in ("login", *cluster.compute):
            stack.enter_context(shadowed_file(cluster, each, "/etc/slurm/slurm.conf", "\n".join(conf) + "\n"))
            stack.enter_context(file_on(cluster, each, "/etc/slurm/gres.conf", gres))
        do(cluster, node, "mknod -m 666 /dev/nvidia0 c 195 0")  # Slurm looks at its number; nobody opens it
        stack.callback(do, cluster, node, "rm /dev/nvidia0")
        _restart_slurm(cluster)
        job = ["srun", "-Q", "--immediate=10", f"--partition={partition}", "--gres=gpu:1", "-w", node, "true"]
        wait_for(lambda: cluster.exec("login", job).returncode == 0, what=f"a job with the GPU of {node}")
        cluster.wait_idle()
        yield


@contextmanager
def job_mounts(cluster: Cluster) -> Iterator[None]:
    """Slurm gives each job mounts of its own, among them its /tmp (job_container/tmpfs).

    On some kernels it cannot always: `_create_ns: ns base mount failed: Invalid argument`. The job then ends, and is tried again.
    """
    conf = [*_slurm_conf(cluster), "JobContainerType=job_container/tmpfs", "PrologFlags=contain"]
    with ExitStack() as stack:
        stack.callback(_restart_slurm, cluster)
        for each in ("login", *cluster.compute):
            stack.enter_context(shadowed_file(cluster, each, "/etc/slurm/slurm.conf", "\n".join(conf) + "\n"))
            base = "AutoBasePath=true\nBasePath=/var/spool/jobtmp\n"
            stack.enter_context(file_on(cluster, each, "/etc/slurm/job_container.conf", base))
        _restart_slurm(cluster)
        yield


def _slurm_conf(cluster: Cluster) -> list[str]:
    return do(cluster, "login", "cat /etc/slurm/slurm.conf").splitlines()


def _with_gpu(line: str, node: str, kind: str, nodes: Sequence[str], partition: str) -> str:
    others = ",".join(name for name in nodes if name != node)
    if line.startswith("NodeName="):
        rest = line.partition(" ")[2]
        return f"GresTypes=gpu\nNodeName={others} {rest}\nNodeName={node} Gres=gpu:{kind}:1 {rest}"
    if line.startswith("PartitionName=all ") and partition != "all":
        return f"{line.replace('Nodes=ALL', f'Nodes={others}')}\nPartitionName={partition} Nodes={node} MaxTime=30 State=UP"
    return line


def _restart_slurm(cluster: Cluster) -> None:
    for node in cluster.compute:
        do(cluster, node, "pid=$(cat /run/slurmd.pid); kill $pid; while [ -e /proc/$pid ]; do sleep .02; done")
    do(
        cluster,
        "login",
        """
        pid=$(pgrep -x slurmctld); kill $pid; while [ -e /proc/$pid ]; do sleep .02; done
        setpriv --reuid slurm --regid slurm --clear-groups /usr/sbin/slurmctld""",
    )
    for node in cluster.compute:
        do(cluster, node, "/usr/sbin/slurmd")
    cluster.wait_idle()
