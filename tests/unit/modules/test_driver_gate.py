"""The driver gate, through real Lmod, on nodes whose /sys/module and /proc are replaced in a mount namespace of their own."""

from __future__ import annotations

import os

import pytest

from envmgr.catalog.recipe import Requires
from envmgr.system.run import Completed, Runner, clean_env
from tests.helpers.lmod_shell import Tree, make_tree, spec

NVRM = "NVRM version: NVIDIA UNIX "
PROPRIETARY = NVRM + "x86_64 Kernel Module  {}  Sun May 12 19:39:15 UTC 2024\nGCC version:  gcc version 11.4.1 (GCC)\n"
OPEN = (
    NVRM
    + "Open Kernel Module for x86_64  {}  Release Build  (dvs-builder@U16-I3-B03-4-3)  Thu Oct 10 18:37:11 UTC 2024\n"
)
OPEN_ARM = NVRM + "Open Kernel Module for aarch64  {}  Release Build  (builder@host)\nGCC version: 13.2.0\n"


def _namespaces() -> bool:
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    done = Runner().run(
        ["unshare", *user, "--mount", "mount", "-t", "tmpfs", "none", "/sys/module"], env=clean_env(), check=False
    )
    return done.returncode == 0


pytestmark = pytest.mark.skipif(not _namespaces(), reason="this machine does not allow mount namespaces")


def node(*, sys: str | None = None, proc: str | None = None) -> str:
    """Shell text that makes the namespace look like a node with this /sys/module/nvidia/version and driver line in /proc."""
    lines = ["mount -t tmpfs none /sys/module"]
    if sys is not None:
        lines += ["mkdir /sys/module/nvidia", f"echo '{sys}' > /sys/module/nvidia/version"]
    if proc is not None:
        lines += [
            "mount -t tmpfs none /proc",
            "mkdir -p /proc/driver/nvidia /proc/sys/kernel",
            "echo c2 > /proc/sys/kernel/hostname",
            f"printf '%s' '{proc}' > /proc/driver/nvidia/version",
        ]
    return "\n".join(lines)


def gated(tmp_path, required: str = "525.60.13", policy: str = "warn") -> Tree:
    return make_tree(tmp_path, spec("torch/2.1", requires=Requires(nvidia_driver=required)), driver_gate=policy)


def load(tree: Tree, before: str) -> Completed:
    return tree.shell('module load torch; echo "$? [$LOADEDMODULES]"', before=before)


def facts(found: str, name: str | None = None, required: str = "525.60.13") -> str:
    return f"torch/2.1 needs NVIDIA driver {required} or newer; {name or os.uname().nodename} has {found}."


ADVICE = "Use a node with a newer driver, or ask the administrators of this cluster to update this one."


def test_driver_gate_warns_and_loads_when_the_driver_is_too_old(tmp_path) -> None:
    done = load(gated(tmp_path), node(sys="470.256.02"))
    assert done.stdout == "0 [torch/2.1]\n"
    assert done.stderr.rstrip() == f"Warning: {facts('470.256.02')}\nIts GPU programs will probably fail here. {ADVICE}"


def test_driver_gate_does_not_end_a_job_under_set_e_when_it_warns(tmp_path) -> None:
    done = gated(tmp_path).shell("set -e; module load torch; echo went on", before=node(sys="470.256.02"))
    assert (done.returncode, done.stdout) == (0, "went on\n")


def test_driver_gate_refuses_by_policy_when_the_driver_is_too_old(tmp_path) -> None:
    done = load(gated(tmp_path, policy="refuse"), node(sys="470.256.02"))
    assert done.stdout == "1 []\n"
    told = done.stderr.split("\n\nWhile processing")[0].strip()
    assert told == f"Lmod has detected the following error: {facts('470.256.02')}\nIt was not loaded. {ADVICE}"


@pytest.mark.parametrize("policy", ["warn", "refuse"])
@pytest.mark.parametrize("before", [node(), node(sys=""), node(sys="", proc=""), node(proc="NVRM version: unknown\n")])
def test_driver_gate_says_nothing_where_there_is_no_driver(tmp_path, policy: str, before: str) -> None:
    done = load(gated(tmp_path, policy=policy), before)
    assert (done.stdout, done.stderr) == ("0 [torch/2.1]\n", "")


@pytest.mark.parametrize(
    ("found", "required", "enough"),
    [
        ("525.60.13", "525.60.13", True),
        ("525.60.13", "525.60", True),
        ("525.60", "525.60.13", False),
        ("525.60.0", "525.60", True),
        ("525.60", "525.60.0", True),
        ("99.9", "450.80.02", False),  # by number, not by text
        ("1000.1", "450.80.02", True),
        ("450.80.2", "450.80.02", True),
        ("450.100.1", "450.80.02", True),
        ("450.51.06", "450.80.02", False),
        ("580.65.06", "525", True),
    ],
)
def test_driver_gate_compares_versions_by_number(tmp_path, found: str, required: str, enough: bool) -> None:
    done = load(gated(tmp_path, required, "refuse"), node(sys=found))
    assert done.stdout == ("0 [torch/2.1]\n" if enough else "1 []\n")
    assert (facts(found, required=required) in done.stderr) is not enough


@pytest.mark.parametrize("wording", [PROPRIETARY, OPEN, OPEN_ARM])
def test_driver_gate_reads_proc_when_sys_has_no_version(tmp_path, wording: str) -> None:
    old = load(gated(tmp_path), node(proc=wording.format("515.105.01")))
    assert old.stdout == "0 [torch/2.1]\n"
    assert facts("515.105.01", name="c2") in old.stderr
    new = load(gated(tmp_path, policy="refuse"), node(proc=wording.format("565.57.01")))
    assert (new.stdout, new.stderr) == ("0 [torch/2.1]\n", "")


def test_driver_gate_believes_sys_before_proc(tmp_path) -> None:
    done = load(gated(tmp_path), node(sys="550.54", proc=OPEN.format("470.1")))
    assert (done.stdout, done.stderr) == ("0 [torch/2.1]\n", "")


@pytest.mark.parametrize(
    "verb",
    ["show torch", "avail", "spider", "spider torch/2.1", "help torch", "whatis torch", "--ignore_cache keyword torch"],
)
def test_driver_gate_is_silent_when_nothing_is_loaded(tmp_path, verb: str) -> None:
    done = gated(tmp_path, policy="refuse").shell(f"module {verb} 2>&1", before=node(sys="470.1"))
    assert done.returncode == 0
    assert "470.1" not in done.stdout


def test_driver_gate_is_silent_at_unload(tmp_path) -> None:
    tree = gated(tmp_path)
    done = tree.shell(
        'module load torch 2>/dev/null; module unload torch; echo "[$LOADEDMODULES]"', before=node(sys="470.1")
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_driver_gate_tells_about_a_dependency_too(tmp_path) -> None:
    tree = make_tree(
        tmp_path,
        spec("torch/2.1", requires=Requires(nvidia_driver="525.60.13")),
        spec("app/1", depends=("torch/2.1",)),
        driver_gate="refuse",
    )
    done = tree.shell('module load app; echo "$? [$LOADEDMODULES]"', before=node(sys="470.1"))
    assert done.stdout == "1 []\n"
    assert facts("470.1") in done.stderr
