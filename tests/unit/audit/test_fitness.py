"""Which node can run what: the matrix, its findings, missing libraries; by hand-made evidence and on real nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envmgr.audit.checks import fitness, libraries, loading
from envmgr.audit.fit.install_facts import missing_libraries
from envmgr.audit.fit.matrix import MatrixRow, node_facts, observed
from envmgr.catalog.fitness import NodeFacts
from envmgr.catalog.gpus import Gpu
from envmgr.catalog.recipe_parts import Requires
from tests.helpers.evidence import audit_plan, evidence, site, table_of, told
from tests.helpers.hardware import NODE, driven

GPU, OLD = driven("535.54.03"), driven("470.57.02")
CUDA12 = Requires(nvidia_driver="525.60.13")
GROUPS = {"compute": ("c1", "c2", "c3"), "login": ("login",)}


def test_node_facts_are_read_from_what_the_probe_told() -> None:
    f = driven("535.54.03", "nvidia 8.0 {} NVIDIA A100, SXM4\nnvidia ? {} NVIDIA A100, SXM4\namd gfx90a ? AMD Instinct")
    a100 = Gpu(vendor="nvidia", arch="8.0", name="NVIDIA A100, SXM4", driver="535.54.03")
    assert node_facts(f | {"fitness.cuda": "12.2"}) == NodeFacts(
        driver="535.54.03",
        library="535.54.03",
        cuda="12.2",
        glibc="2.34",
        arch="x86_64",
        cpu_level="x86-64-v3",
        os_id="rocky",
        os_version="9.4",
        gpus=(Gpu(vendor="amd", arch="gfx90a", name="AMD Instinct"), a100.model_copy(update={"arch": ""}), a100),
    )
    odd = node_facts(driven("535.54.03", "nvidia 8.10 {} A\nnvidia [N/A] {} B\nnvidia\n\nnvidia 8.0"))
    assert odd is not None
    assert [(gpu.name, gpu.arch) for gpu in odd.gpus] == [("A", ""), ("B", "")]
    found = node_facts(NODE | {"fitness.library": "?", "fitness.gpus": "nvidia ? - NVIDIA GPU"})
    assert found is not None
    assert (found.driver, found.library, found.gpus[0].driver) == ("", None, "")
    assert node_facts({"gate": "ok"}) is None


def test_healthy_cluster_with_login_node_has_no_findings() -> None:
    given = evidence({"login": NODE, "c1": GPU, "c2": GPU, "c3": GPU}, entries={"t/1": CUDA12}, groups=GROUPS)
    assert told(fitness, given) == []
    assert table_of(given) == (
        MatrixRow("t/1", "c[1-3]", fit=True),
        MatrixRow("t/1", "login", fit=True, reasons=("without GPU",)),
    )


def test_old_driver_on_one_node_of_a_group_is_an_error() -> None:
    entries = {"a/1": CUDA12, "b/1": CUDA12, "plain/1": Requires(glibc="2.17")}
    given = evidence({"c1": GPU, "c2": OLD, "c3": GPU, "login": NODE}, entries=entries, groups=GROUPS)
    assert told(fitness, given) == [
        (
            "error c2: a/1, b/1: driver 470.57.02 is older than 525.60.13 | as on c[1,3] | "
            "install NVIDIA driver 525.60.13 (CUDA 12) or newer there, and reboot"
        )
    ]
    assert table_of(given) == (
        MatrixRow("a/1", "c[1,3]", fit=True),
        MatrixRow("a/1", "login", fit=True, reasons=("without GPU",)),
        MatrixRow("a/1", "c2", fit=False, reasons=("driver 470.57.02 is older than 525.60.13",)),
        MatrixRow("b/1", "c[1,3]", fit=True),
        MatrixRow("b/1", "login", fit=True, reasons=("without GPU",)),
        MatrixRow("b/1", "c2", fit=False, reasons=("driver 470.57.02 is older than 525.60.13",)),
        MatrixRow("plain/1", "c[1-3],login", fit=True),
    )


def test_entry_that_a_whole_group_cannot_run_is_a_note_while_another_group_can() -> None:
    groups = {"old": ("o1", "o2"), "new": ("n1",)}
    given = evidence({"o1": OLD, "o2": OLD, "n1": GPU}, entries={"t/1": CUDA12}, groups=groups)
    assert told(fitness, given) == ["note o[1-2]: t/1: driver 470.57.02 is older than 525.60.13 | it runs on n1"]


def test_entry_that_no_node_can_run_is_an_error() -> None:
    given = evidence({"c1": OLD, "c2": OLD, "login": NODE}, entries={"t/1": CUDA12})
    assert told(fitness, given) == [
        (
            "error c[1-2]: t/1: driver 470.57.02 is older than 525.60.13 | a node that can run it; none of these can | "
            "install NVIDIA driver 525.60.13 (CUDA 12) or newer there, and reboot"
        )
    ]


def test_many_entries_with_one_reason_are_one_finding() -> None:
    entries = {f"e{n:02}/1": Requires(glibc="2.39") for n in range(20)}
    given = evidence({"c1": NODE, "c2": NODE}, entries=entries)
    names = ", ".join(f"e{n:02}/1" for n in range(8))
    assert told(fitness, given) == [
        (
            f"error c[1-2]: {names} and 12 more: glibc 2.34 is older than 2.39 | a node that can run it; none of these can | "
            "glibc comes with the operating system: update it there, or take an entry built for an older one"
        )
    ]


def test_compute_capability_and_cpu_level_that_do_not_do() -> None:
    entries = {"a/1": Requires(compute_capability=("8.0", "9.0")), "b/1": Requires(cpu_level="x86-64-v4")}
    given = evidence({"c1": GPU}, entries=entries)
    assert told(fitness, given) == [
        (
            "error c1: a/1: compute capability 7.5: it has code for 8.0, 9.0 | a node that can run it; none of these can | "
            "take an entry with code for these GPUs"
        ),
        (
            "error c1: b/1: CPU level x86-64-v3 is below x86-64-v4 | a node that can run it; none of these can | "
            "take an entry built for x86-64-v3"
        ),
    ]


def test_gpu_whose_driver_is_gone() -> None:
    broken = NODE | {"fitness.gpus": "nvidia ? - NVIDIA GPU\nnvidia ? - NVIDIA GPU"}
    given = evidence({"c1": GPU, "c2": GPU, "c3": broken}, entries={"t/1": CUDA12}, groups=GROUPS)
    mend = "`modprobe nvidia` on the node says why; after a kernel update the driver must be built again"
    assert told(fitness, given) == [
        f"error c3: NVIDIA driver: none is loaded | one, for the node's 2 GPUs | {mend}",
        f"error c3: t/1: no driver is loaded for NVIDIA GPU | as on c[1-2] | {mend}",
    ]


def test_nvidia_smi_that_fails_or_hangs() -> None:
    mismatch = "Failed to initialize NVML: Driver/library version mismatch"
    given = evidence({"c1": GPU | {"fitness.smi": mismatch}, "c2": GPU | {"fitness.smi": "hung"}, "c3": GPU})
    assert told(fitness, given) == [
        (
            f"error c1: nvidia-smi: fails: {mismatch} | the GPUs that the driver sees | "
            "driver and library of different versions? reboot after a driver update"
        ),
        (
            "error c2: nvidia-smi: does not answer | an answer in 6 s | "
            "`dmesg | grep -i -e xid -e nvrm` on the node; a GPU that fell off the bus needs a reboot"
        ),
    ]


def test_job_that_is_shown_no_gpu_is_no_fault() -> None:
    hidden = driven("535.54.03", "nvidia ? {} NVIDIA A100") | {"fitness.smi": "No devices were found"}
    note = (
        "note c1: GPUs: `nvidia-smi` lists none, the driver does: Slurm's or sshd's device constraint may hide them from who asks | "
        "a job with `--gres=gpu:1` is shown one"
    )
    for way in ("ssh", "slurm"):
        assert told(fitness, evidence({"c1": hidden}, way=way)) == [note]


def test_nodes_that_did_not_answer_are_in_the_table_of() -> None:
    given = evidence({"c1": NODE, "c2": {}}, entries={"t/1": Requires()}, missing=("c3",))
    assert table_of(given) == (
        MatrixRow("t/1", "c[2-3]", fit=False, reasons=("no answer",)),
        MatrixRow("t/1", "c1", fit=True),
    )
    assert observed(given) == {node_facts(NODE): ("c1",)}


# -- libraries ----------------------------------------------------------------------------------------------------------


def looked(missing: str = "", driver: str = "no") -> dict[str, str]:
    return (
        NODE
        | {"libraries.driver": driver, "libraries.looked.t/1": "yes"}
        | ({"libraries.missing.t/1": missing} if missing else {})
    )


def test_library_that_one_node_lacks_is_an_error() -> None:
    lines = "libGL.so.1 bin/viewer\nlibGL.so.1 lib/libview.so\nlibX11.so.6 bin/viewer"
    given = evidence({"c1": looked(), "c2": looked(lines)}, entries={"t/1": Requires()}, samples=("t/1",))
    assert told(libraries, given) == [
        (
            "error c2: t/1: no libGL.so.1, libX11.so.6 | what bin/viewer needs, as on c1 | "
            "`dnf provides '*/libGL.so.1'` or `apt-file search libGL.so.1` names the package to install"
        )
    ]
    assert table_of(given, libraries) == (
        MatrixRow("t/1", "c1", fit=True),
        MatrixRow("t/1", "c2", fit=False, reasons=("no libGL.so.1, libX11.so.6",)),
    )


def test_entry_does_not_run_on_a_node_whose_lmod_does_not_load_it() -> None:
    facts = {"c1": looked(), "c2": {**looked(), "loading.failed.t/1": "no such module"}}
    facts = {node: {"current": "generations/0001", **of} for node, of in facts.items()}
    assert table_of(evidence(facts, entries={"t/1": Requires()}, samples=("t/1",)), loading) == (
        MatrixRow("t/1", "c1", fit=True),
        MatrixRow("t/1", "c2", fit=False, reasons=("cannot be loaded: no such module",)),
    )


def test_library_that_no_node_has_is_a_warning() -> None:
    lines = looked("libGL.so.1 bin/viewer")
    assert told(libraries, evidence({"c1": lines, "c2": lines}, samples=("t/1",))) == [
        (
            "warning c[1-2]: t/1: no libGL.so.1 | what bin/viewer needs | "
            "`dnf provides '*/libGL.so.1'` or `apt-file search libGL.so.1` names the package to install"
        )
    ]


@pytest.mark.parametrize(
    "library",
    [
        "libcuda.so.1",
        "libnvidia-ml.so.1",
        "libnvcuvid.so.1",
        "libnvidia-encode.so.1",
        "libnvidia-ptxjitcompiler.so.1",
        "libcudadebugger.so.1",
        "libEGL_nvidia.so.0",
        "libnvoptix.so.1",
    ],
)
def test_libraries_of_the_driver_are_missing_only_where_there_is_a_driver(library: str) -> None:
    assert missing_libraries("t/1", looked(f"{library} bin/x")) == {}
    assert missing_libraries("t/1", looked(f"{library} bin/x", driver="yes")) == {library: ["bin/x"]}


@pytest.mark.parametrize(
    "library", ["libcudart.so.12", "libcublas.so.11", "libnccl.so.2", "libnvidia.so.1", "libnvrtc.so.12"]
)
def test_libraries_of_the_toolkit_are_no_part_of_the_driver(library: str) -> None:
    assert missing_libraries("t/1", looked(f"{library} bin/x")) == {library: ["bin/x"]}


def test_ldd_can_be_switched_off() -> None:
    plan = audit_plan(site(audit={"ldd": "none"}), samples=("t/1",), roots={"t/1": "/x"})
    assert libraries.probe(plan) == {}


def test_gpus_that_are_hidden_over_ssh_are_those_that_a_job_was_shown() -> None:
    """Slurm's answer wins where it knows more: so does the table, and what a build is held against."""
    hidden = driven("535.54.03", "nvidia ? {} NVIDIA A100\nnvidia ? {} NVIDIA A100") | {
        "fitness.smi": "No devices were found"
    }
    shown = driven("535.54.03", "nvidia 8.0 {} NVIDIA A100\nnvidia ? {} NVIDIA A100") | {"fitness.cuda": "12.2"}
    entries = {"t/1": Requires(compute_capability=("9.0",))}
    given = evidence({"c1": hidden, "c2": hidden}, entries=entries)
    (only,) = observed(given)
    assert [gpu.arch for gpu in only.gpus] == ["", ""]
    jobs = evidence({"c1": shown}, way="slurm").fleet
    both = replace(given, ways={**given.ways, "slurm": jobs})
    known = {nodes: facts for facts, nodes in observed(both).items()}
    assert [gpu.arch for gpu in known[("c1",)].gpus] == [
        "8.0",
        "8.0",
    ]  # one that was shown stands for others of its name
    assert known[("c1",)].cuda == "12.2"
    assert [gpu.arch for gpu in known[("c2",)].gpus] == ["", ""]
