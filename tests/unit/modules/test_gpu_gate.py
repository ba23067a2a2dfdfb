"""The GPU gate, through real Lmod, on nodes whose /sys/module, /proc and /run are replaced in a mount namespace of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envmgr.catalog.gpus import Gpu, GpuFacts, GpuNeeds
from envmgr.system.run import Completed, Runner, clean_env
from tests.helpers.gpu_oracle import Row, read_oracle
from tests.helpers.lmod_shell import Tree, make_tree, spec

NVRM = "NVRM version: NVIDIA UNIX "
PROPRIETARY = NVRM + "x86_64 Kernel Module  {}  Sun May 12 19:39:15 UTC 2024\nGCC version:  gcc version 11.4.1 (GCC)\n"
OPEN = (
    NVRM
    + "Open Kernel Module for x86_64  {}  Release Build  (dvs-builder@U16-I3-B03-4-3)  Thu Oct 10 18:37:11 UTC 2024\n"
)
OPEN_ARM = NVRM + "Open Kernel Module for aarch64  {}  Release Build  (builder@host)\nGCC version: 13.2.0\n"
GTX = "NVIDIA GeForce GTX 1650"
HERE = os.uname().nodename


def _namespaces() -> bool:
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    done = Runner().run(
        ["unshare", *user, "--mount", "mount", "-t", "tmpfs", "none", "/sys/module"], env=clean_env(), check=False
    )
    return done.returncode == 0


pytestmark = pytest.mark.skipif(not _namespaces(), reason="this machine does not allow mount namespaces")


def node(*, sys: str | None = None, proc: str | None = None) -> str:
    """Shell text that makes the namespace look like a node with this /sys/module/nvidia/version and driver line in /proc."""
    lines = ["mount -t tmpfs none /sys/module", "mount -t tmpfs none /run"]
    if sys is not None:
        lines += ["mkdir /sys/module/nvidia", f"echo '{sys}' > /sys/module/nvidia/version"]
    if proc is not None:
        lines += [
            "boot=$(cat /proc/sys/kernel/random/boot_id)",
            "mount -t tmpfs none /proc",
            "mkdir -p /proc/driver/nvidia /proc/sys/kernel/random",
            "echo c2 > /proc/sys/kernel/hostname; echo $boot > /proc/sys/kernel/random/boot_id",
            f"printf '%s' '{proc}' > /proc/driver/nvidia/version",
        ]
    return "\n".join(lines)


def written(facts: GpuFacts, *, boot: str = "$(cat /proc/sys/kernel/random/boot_id)", end: str = "end yes") -> str:
    """Shell text that writes what the node's service would have written at boot, and a libcuda beside it."""
    driver = next((gpu.driver for gpu in facts.gpus or () if gpu.vendor == "nvidia"), "")
    rows = [
        "schema 1",
        f"boot {boot}",
        f"driver {_word(driver)}",
        f"library {'/run/lib' if facts.library != '' else '-'}",
    ]
    rows += [f"cuda {facts.cuda or '?'}"]
    rows += [f"gpu {gpu.vendor} {gpu.arch or '?'} {_word(gpu.driver)} {gpu.name}" for gpu in facts.gpus or ()]
    lines = ["mkdir -p /run/lib /run/envmgr"]
    if facts.library:
        lines += [f"touch /run/lib/libcuda.so.1 /run/lib/libcuda.so.{facts.library}"]
    return "\n".join([*lines, "cat >/run/envmgr/gpus <<END\n" + "\n".join([*rows, end]) + "\nEND"])


def _word(driver: str | None) -> str:
    return "?" if driver is None else driver or "-"


def one(driver: str, arch: str = "7.5", name: str = GTX, *, library: str | None = "", cuda: str = "") -> GpuFacts:
    """One GPU; its library is the driver's own unless told otherwise."""
    gpus = (Gpu(vendor="nvidia", arch=arch, name=name, driver=driver),)
    return GpuFacts(gpus=gpus, library=library if library != "" else driver, cuda=cuda)


def with_gpu(driver: str, arch: str = "7.5", **given: str | None) -> str:
    return f"{node(sys=driver)}\n{written(one(driver, arch, **given))}"  # type: ignore[arg-type]


def gated(tmp_path: Path, policy: str = "warn", **needs: object) -> Tree:
    given = {"cuda": "12.1", "codes": ("7.0", "8.0"), **needs}
    return make_tree(tmp_path, spec("torch/2.1", gpu=GpuNeeds(**given)), driver_gate=policy)


def load(tree: Tree, before: str) -> Completed:
    return tree.shell('module load torch; echo "$? [$LOADEDMODULES]"', before=before)


TOO_OLD = "its GPU programs fail here: driver 470.256.02 is older than 525.60.13, the first for its CUDA 12.1."
ADVICE = "Use a node with a newer driver, or ask the administrators of this cluster to update this one."


def test_driver_that_is_too_old_is_told_and_the_module_loads(tmp_path: Path) -> None:
    done = load(gated(tmp_path), with_gpu("470.256.02"))
    assert done.stdout == "0 [torch/2.1]\n"
    assert done.stderr.rstrip() == f"Warning: torch/2.1 on {HERE}: {TOO_OLD}\n{ADVICE}"


def test_job_under_set_e_goes_on_after_a_warning(tmp_path: Path) -> None:
    done = gated(tmp_path).shell("set -e; module load torch; echo went on", before=with_gpu("470.256.02"))
    assert (done.returncode, done.stdout) == (0, "went on\n")


def test_refused_by_policy(tmp_path: Path) -> None:
    done = load(gated(tmp_path, policy="refuse"), with_gpu("470.256.02"))
    assert done.stdout == "1 []\n"
    told = done.stderr.split("\n\nWhile processing")[0].strip()
    assert told == f"Lmod has detected the following error: torch/2.1 on {HERE}: {TOO_OLD}\nIt was not loaded. {ADVICE}"


@pytest.mark.parametrize("policy", ["warn", "refuse"])
@pytest.mark.parametrize("before", [node(), f"{node()}\n{written(GpuFacts(gpus=()))}"], ids=["no file", "no GPU"])
def test_login_node_loads_without_a_word(tmp_path: Path, policy: str, before: str) -> None:
    done = load(gated(tmp_path, policy=policy), before)
    assert (done.stdout, done.stderr) == ("0 [torch/2.1]\n", "")


@pytest.mark.parametrize("policy", ["warn", "refuse"])
def test_full_support_loads_without_a_word(tmp_path: Path, policy: str) -> None:
    done = load(gated(tmp_path, policy=policy), with_gpu("535.183.01"))
    assert (done.stdout, done.stderr) == ("0 [torch/2.1]\n", "")


def sampled() -> list[Row]:
    """Rows that a gate can meet: the facts that a node's service writes, and no driver that differs from GPU to GPU."""
    rows = [
        row
        for row in read_oracle()
        if row.facts.gpus
        and all(g.vendor == "nvidia" and g.driver for g in row.facts.gpus)
        and row.facts.library is not None
    ]
    by_verdict = {
        verdict: [row for row in rows if (row.verdict, row.refused) == verdict]
        for verdict in {(r.verdict, r.refused) for r in rows}
    }
    return [row for _, found in sorted(by_verdict.items()) for row in found[:: max(1, len(found) // 4)][:4]]


@pytest.mark.parametrize("row", sampled(), ids=lambda row: f"{row.line}-{row.rule}")
def test_lmod_says_what_the_oracle_says(tmp_path: Path, row: Row) -> None:
    tree = make_tree(tmp_path, spec("torch/2.1", gpu=row.needs), driver_gate="refuse")
    driver = (row.facts.gpus or ())[0].driver
    done = load(tree, f"{node(sys=driver)}\n{written(row.facts)}")
    words = {
        "full": "",
        "no-jit": "compile at run time",
        "forward": "cuda-compat",
        "unknown": "is not known",
        "no-code": "it has code for",
        "too-old": "is older than",
        "broken": "no GPU program runs here",
    }
    assert done.stdout == ("1 []\n" if row.refused else "0 [torch/2.1]\n"), done.stderr
    assert (words[row.verdict] in done.stderr) if words[row.verdict] else done.stderr == ""


def test_there_are_twenty_rows_for_lmod() -> None:
    assert len(sampled()) >= 20
    assert {row.verdict for row in sampled()} == {
        "full",
        "no-jit",
        "forward",
        "no-code",
        "too-old",
        "broken",
        "unknown",
    }


def test_no_jit_is_said_once_for_a_session_and_again_on_another_node(tmp_path: Path) -> None:
    tree = gated(tmp_path)
    text = "module load torch; module unload torch; echo -- >&2; module load torch; echo -- >&2; module unload torch; "
    done = tree.shell(
        text + "echo other > /run/hostname; mount --bind /run/hostname /proc/sys/kernel/hostname; module load torch",
        before=with_gpu("525.60.13"),
    )
    first, second, third = done.stderr.split("--\n")
    assert first.startswith(
        f"Note: torch/2.1 on {HERE}: it runs, but whatever it would compile at run time (Triton, NVRTC"
    )
    assert second == ""
    assert third.startswith("Note: torch/2.1 on other: it runs, but")


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (written(one("535.183.01")), True),
        (written(one("535.183.01"), boot="0000"), False),
        (written(one("535.54.03")), False),
        (written(one("535.183.01"), end="gpu nvi"), False),
        ("mkdir -p /run/envmgr; head -c 300 /dev/urandom >/run/envmgr/gpus", False),
        ("mkdir -p /run/envmgr/gpus", False),
        (":", False),
    ],
    ids=["as it is", "another boot", "another driver", "cut", "garbage", "a folder", "nothing"],
)
def test_what_was_written_counts_only_for_this_boot_and_driver(tmp_path: Path, text: str, known: bool) -> None:
    libcuda = "mkdir -p /run/lib; touch /run/lib/libcuda.so.1 /run/lib/libcuda.so.535.183.01"
    done = load(gated(tmp_path, policy="refuse"), f"{node(sys='535.183.01')}\n{text}\n{libcuda}")
    assert done.stdout == "0 [torch/2.1]\n"
    assert done.stderr == "" if known else "whether its GPU programs run here is not known" in done.stderr


def test_library_of_another_version_is_a_broken_node(tmp_path: Path) -> None:
    done = load(gated(tmp_path), with_gpu("535.183.01", library="550.54.14"))
    told = "libcuda.so.1 is of another version: updated, not rebooted"
    assert (
        f"Warning: torch/2.1 on {HERE}: no GPU program runs here: driver 535.183.01 is loaded, and {told}."
        in done.stderr
    )
    assert done.stdout == "0 [torch/2.1]\n"


@pytest.mark.parametrize("before", [node(sys=""), node(sys="", proc=""), node(proc="NVRM version: unknown\n")])
def test_driver_that_tells_no_version_is_not_known(tmp_path: Path, before: str) -> None:
    done = load(gated(tmp_path, policy="refuse"), before)
    assert done.stdout == "0 [torch/2.1]\n"
    assert "is not known: the version of its driver could not be read" in done.stderr


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
def test_versions_are_compared_by_number(tmp_path: Path, found: str, required: str, enough: bool) -> None:
    done = load(gated(tmp_path, policy="refuse", cuda=None, codes=None, driver=required), with_gpu(found))
    assert (done.stdout, f"driver {found} is older than {required}." in done.stderr) == (
        ("0 [torch/2.1]\n", False) if enough else ("1 []\n", True)
    )


@pytest.mark.parametrize("wording", [PROPRIETARY, OPEN, OPEN_ARM])
def test_proc_is_read_when_sys_has_no_version(tmp_path: Path, wording: str) -> None:
    old = load(gated(tmp_path), f"{node(proc=wording.format('515.105.01'))}\n{written(one('515.105.01'))}")
    assert old.stdout == "0 [torch/2.1]\n"
    assert "torch/2.1 on c2: its GPU programs fail here: driver 515.105.01 is older than 525.60.13" in old.stderr
    new = load(
        gated(tmp_path, policy="refuse"), f"{node(proc=wording.format('565.57.01'))}\n{written(one('565.57.01'))}"
    )
    assert (new.stdout, new.stderr) == ("0 [torch/2.1]\n", "")


def test_sys_is_believed_before_proc(tmp_path: Path) -> None:
    done = load(gated(tmp_path), f"{node(sys='550.54', proc=OPEN.format('470.1'))}\n{written(one('550.54'))}")
    assert (done.stdout, done.stderr) == ("0 [torch/2.1]\n", "")


@pytest.mark.parametrize(
    "verb",
    ["show torch", "avail", "spider", "spider torch/2.1", "help torch", "whatis torch", "--ignore_cache keyword torch"],
)
def test_nothing_is_said_where_nothing_is_loaded(tmp_path: Path, verb: str) -> None:
    done = gated(tmp_path, policy="refuse").shell(f"module {verb} 2>&1", before=with_gpu("470.1"))
    assert done.returncode == 0
    assert "470.1" not in done.stdout


def test_nothing_is_said_at_unload(tmp_path: Path) -> None:
    done = gated(tmp_path).shell(
        'module load torch 2>/dev/null; module unload torch; echo "[$LOADEDMODULES]"', before=with_gpu("470.1")
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_dependency_is_told_too(tmp_path: Path) -> None:
    tree = make_tree(
        tmp_path,
        spec("torch/2.1", gpu=GpuNeeds(cuda="12.1", codes=("7.0",))),
        spec("app/1", depends=("torch/2.1",)),
        driver_gate="refuse",
    )
    done = tree.shell('module load app; echo "$? [$LOADEDMODULES]"', before=with_gpu("470.1"))
    assert done.stdout == "1 []\n"
    assert "driver 470.1 is older than 525.60.13" in done.stderr


def test_load_starts_no_program(tmp_path: Path) -> None:
    trap = "mkdir /run/bin; printf '#!/bin/sh\\ntouch /run/asked\\n' >/run/bin/nvidia-smi; chmod 755 /run/bin/nvidia-smi; PATH=/run/bin:$PATH"
    done = gated(tmp_path).shell(f"{trap}; module load torch; ls /run/asked 2>&1", before=with_gpu("535.183.01"))
    assert "No such file" in done.stdout
