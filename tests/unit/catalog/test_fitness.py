"""What a node can run, and the file in which an audit keeps what it saw."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envmgr.catalog.fitness import NodeFacts, NodeNeeds, cpu_level, gpu_needs, level_flags, without_gpu
from envmgr.catalog.fitness import unfit as unfit_for
from envmgr.catalog.gpus import Gpu
from envmgr.catalog.names import older
from envmgr.catalog.recipe_parts import Requires
from envmgr.catalog.site import Site
from envmgr.catalog.site_file import CPU_ORDER
from envmgr.errors import EnvmgrError
from envmgr.store.node_facts import (
    FleetFacts,
    SeenNodes,
    Told,
    facts_file,
    merge_facts,
    read_node_facts,
    save_node_facts,
)
from envmgr.store.prefix import Prefix
from tests.helpers.evidence import site

V3 = level_flags()["x86-64-v3"]
GPU = NodeFacts(
    driver="535.183.01",
    gpus=(Gpu(vendor="nvidia", arch="7.5", name="NVIDIA GeForce GTX 1650", driver="535.183.01"),),
    library="535.183.01",
    glibc="2.34",
    arch="x86_64",
    cpu_level="x86-64-v3",
    os_id="rocky",
    os_version="9.4",
)
LOGIN = NodeFacts(glibc="2.34", arch="x86_64", cpu_level="x86-64-v3", os_id="rocky", os_version="9.4")
VERSIONS = st.lists(st.integers(0, 700), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))


def needs(requires: Requires) -> NodeNeeds:
    return NodeNeeds(requires, gpu_needs(requires))


def unfit(requires: Requires, node: NodeFacts) -> tuple[str, ...]:
    return unfit_for(needs(requires), node)


def facts(**changes: object) -> NodeFacts:
    return GPU.model_copy(update=changes)


def driven(driver: str) -> NodeFacts:
    """The same node with another driver."""
    return facts(driver=driver, library=driver, gpus=(GPU.gpus[0].model_copy(update={"driver": driver}),))


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        ("450.80.02", ()),
        ("450.80.2", ()),
        ("450.80", ("driver 450.80 is older than 450.80.02",)),
        ("470.57.02", ()),
        ("450.51.06", ("driver 450.51.06 is older than 450.80.02",)),
        ("1000.1", ()),
    ],
)
def test_driver_must_be_the_required_one_or_newer(driver: str, reason: tuple[str, ...]) -> None:
    assert unfit(Requires(nvidia_driver="450.80.02"), driven(driver)) == reason


def test_node_without_driver_and_gpu_is_fit_as_far_as_it_goes() -> None:
    requires = Requires(nvidia_driver="525.60.13", compute_capability=("8.0",))
    assert unfit(requires, LOGIN) == ()
    assert without_gpu(needs(requires), LOGIN)
    assert not without_gpu(needs(requires), GPU)
    assert not without_gpu(needs(Requires(glibc="2.17")), LOGIN)


def test_gpu_without_its_driver_is_unfit() -> None:
    node = facts(driver="", gpus=(Gpu(vendor="nvidia", name="NVIDIA GPU", driver=""),))
    assert unfit(Requires(nvidia_driver="525.60.13"), node) == ("no driver is loaded for NVIDIA GPU",)
    assert unfit(Requires(), node) == ()


@pytest.mark.parametrize(
    ("code", "gpus", "runs"),
    [
        (("7.5",), ("7.5",), True),
        (("7.0",), ("7.5",), True),  # same major, lower minor
        (("8.0",), ("7.5",), False),
        (("7.5",), ("7.0",), False),  # a higher minor
        (("7.5",), ("8.6",), False),  # another major
        (("7.5", "8.0"), ("8.6",), True),
        (("12.0",), ("12.1",), True),
        (("8.0",), ("3.0", "8.6"), True),  # one GPU is enough
        (("8.0",), ("",), True),  # not known: not held against it
        (("8.0",), (), True),
        ((), ("3.0",), True),
    ],
)
def test_compute_capability_follows_nvidias_binary_compatibility(code: tuple, gpus: tuple, runs: bool) -> None:
    own = [Gpu(vendor="nvidia", arch=arch, name=f"GPU {n}", driver=GPU.driver) for n, arch in enumerate(gpus)]
    node = facts(gpus=tuple(own))
    assert (unfit(Requires(compute_capability=code), node) == ()) is runs


def test_every_reason_is_told() -> None:
    requires = Requires(
        nvidia_driver="580.65.06", compute_capability=("8.0", "9.0"), glibc="2.39", cpu_level="x86-64-v4"
    )
    assert unfit(requires, GPU) == (
        "driver 535.183.01 is older than 580.65.06",  # of GPUs the first reason: a newer driver is looked at again
        "glibc 2.34 is older than 2.39",
        "CPU level x86-64-v3 is below x86-64-v4",
    )


def test_other_architecture_is_unfit() -> None:
    arm = NodeFacts(arch="aarch64", cpu_level="aarch64", glibc="2.34")
    assert unfit(Requires(cpu_level="x86-64-v2"), arm) == ("CPU is aarch64, not x86-64-v2",)
    assert unfit(Requires(cpu_level="aarch64"), GPU) == ("CPU is x86-64-v3, not aarch64",)
    assert unfit(Requires(cpu_level="aarch64"), arm) == ()


def test_what_is_not_known_is_not_held_against_a_node() -> None:
    requires = Requires(nvidia_driver="525.60.13", compute_capability=("8.0",), glibc="2.39", cpu_level="x86-64-v4")
    assert unfit(requires, NodeFacts()) == ()


@given(VERSIONS, VERSIONS)
def test_older_orders_versions_as_numbers(a: str, b: str) -> None:
    assert [older(a, b), older(b, a)].count(True) <= 1
    assert not older(a, f"{a}.0")
    assert not older(f"{a}.0", a)
    if older(a, b):
        assert unfit(Requires(nvidia_driver=b), driven(a)) == (f"driver {a} is older than {b}",)
    else:
        assert unfit(Requires(nvidia_driver=b), driven(a)) == ()


@given(st.sampled_from(sorted(CPU_ORDER)), st.sampled_from(sorted(CPU_ORDER)))
def test_a_higher_level_runs_what_is_for_a_lower_one(wanted: str, has: str) -> None:
    fit = unfit(Requires(cpu_level=wanted), facts(cpu_level=has)) == ()
    assert fit == (CPU_ORDER[has] >= CPU_ORDER[wanted])


@pytest.mark.parametrize("level", sorted(CPU_ORDER))
def test_cpu_level_is_the_highest_whose_flags_are_all_there(level: str) -> None:
    flags = (level_flags()[level] - {"sse3"}) | {"pni", "sse4a", "vmx"}  # as Intel's and AMD's kernels write them
    assert cpu_level("x86_64", flags) == level


def test_cpu_level_of_a_processor_that_lacks_one_flag() -> None:
    assert cpu_level("x86_64", V3 - {"movbe"}) == "x86-64-v2"
    assert cpu_level("aarch64", ["fp", "asimd"]) == "aarch64"
    assert cpu_level("ppc64le", []) == ""


def test_cpu_level_of_this_machine_is_what_the_loader_says() -> None:
    """Source: ld.so --help lists the levels that glibc found by cpuid."""
    loader = next(iter(Path("/lib64").glob("ld-linux-x86-64.so.2")), None)
    if loader is None:
        pytest.skip("not an x86-64 machine with glibc")
    said = subprocess.run([loader, "--help"], capture_output=True, text=True, check=True).stdout
    if "supported, searched" not in said:
        pytest.skip("this glibc does not tell levels")
    expected = max((n for n in (2, 3, 4) if f"x86-64-v{n} (supported, searched)" in said), default=1)
    flags = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    assert cpu_level("x86_64", flags.split()) == ("x86-64" if expected == 1 else f"x86-64-v{expected}")


# -- what audits saw ----------------------------------------------------------------------------------------------------


def at(folder: Path, **fields: object) -> Site:
    return site(**fields).model_copy(update={"prefix": folder})


def test_facts_come_back_as_they_were_saved(tmp_path: Path) -> None:
    assert read_node_facts(Prefix(tmp_path)) is None
    assert save_node_facts(at(tmp_path), {GPU: ["c2", "c1"], LOGIN: ["login"]}, {"compute": ("c1", "c2")}, 1000.0) == ""
    found = read_node_facts(Prefix(tmp_path))
    assert found == FleetFacts(
        groups={"compute": ("c1", "c2")},
        seen=(
            SeenNodes(nodes=("c1", "c2"), time=1000.0, facts=GPU),
            SeenNodes(nodes=("login",), time=1000.0, facts=LOGIN),
        ),
    )
    assert found is not None
    assert found.by_node() == {"c1": GPU, "c2": GPU, "login": LOGIN}
    path = facts_file(Prefix(tmp_path))
    assert json.loads(path.read_text())["schema"] == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [p.name for p in path.parent.iterdir()] == ["nodes.json"]


def test_findings_are_kept_beside_the_facts_and_come_to_the_next_audit(tmp_path: Path) -> None:
    told = Told(check="mount", nodes="c2", where="/sw", since=1000.0)
    before: list[Sequence[Told]] = []
    for findings in ([told], []):
        save_node_facts(at(tmp_path), {}, {}, 1000.0, told=lambda old, new=findings: (before.append(old), new)[1])  # type: ignore[misc]
    assert before == [(), (told,)]
    found = read_node_facts(Prefix(tmp_path))
    assert found is not None
    assert found.told == ()


def test_nodes_not_seen_this_time_keep_what_was_known() -> None:
    groups = {"compute": ("c1", "c2", "c3")}
    before = merge_facts(None, {GPU: ["c1", "c2", "c9"]}, {}, 10)
    after = merge_facts(before, {LOGIN: ["c2"]}, groups, 20)
    assert [(s.nodes, s.time) for s in after.seen] == [(("c1",), 10), (("c2",), 20)]  # c9 is in no group any more


@given(st.lists(st.tuples(st.sampled_from(["c1", "c2", "c3", "c4"]), st.sampled_from([GPU, LOGIN])), max_size=12))
def test_merging_keeps_the_newest_of_every_node(sightings: list[tuple[str, NodeFacts]]) -> None:
    known: FleetFacts | None = None
    for now, (node, facts_of_node) in enumerate(sightings):
        known = merge_facts(known, {facts_of_node: [node]}, {}, now)
    if known is not None:
        assert known.by_node() == dict(sightings)
        nodes = [node for seen in known.seen for node in seen.nodes]
        assert len(nodes) == len(set(nodes))
        assert FleetFacts.model_validate_json(known.model_dump_json(by_alias=True)) == known


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1, "other": 1}'])
def test_damaged_file_is_an_error_for_readers_and_replaced_by_the_next_audit(tmp_path: Path, text: str) -> None:
    path = facts_file(Prefix(tmp_path))
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(EnvmgrError) as caught:
        read_node_facts(Prefix(tmp_path))
    assert caught.value.reference == "node-facts-damaged"
    assert caught.value.hint == "`envmgr audit` writes it again"
    assert save_node_facts(at(tmp_path), {GPU: ["c1"]}, {}, 5) == ""
    found = read_node_facts(Prefix(tmp_path))
    assert found is not None
    assert found.by_node() == {"c1": GPU}


def test_facts_in_another_format_are_not_replaced(tmp_path: Path) -> None:
    path = facts_file(Prefix(tmp_path))
    path.parent.mkdir(parents=True)
    path.write_text('{"schema": 2}')
    assert save_node_facts(at(tmp_path), {GPU: ["c1"]}, {}, 5) == f"{path} has format 2, and this envmgr knows format 1"
    assert path.read_text() == '{"schema": 2}'


def test_leftovers_of_killed_writers_go_after_an_hour(tmp_path: Path) -> None:
    folder = facts_file(Prefix(tmp_path)).parent
    folder.mkdir(parents=True)
    for name, age in ((".nodes.json.a.1.tmp", 7200), (".nodes.json.a.2.tmp", 60)):
        (folder / name).write_text("half")
        os.utime(folder / name, (time.time() - age,) * 2)
    assert save_node_facts(at(tmp_path), {GPU: ["c1"]}, {}, 5) == ""
    assert sorted(p.name for p in folder.iterdir()) == [".nodes.json.a.2.tmp", "nodes.json"]


def test_saving_where_nobody_may_write_says_why(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    said = save_node_facts(at(blocked), {GPU: ["c1"]}, {}, 5)
    assert said.startswith("mkdir: cannot create directory")
    assert save_node_facts(at(tmp_path, build_user="no-such-user"), {}, {}, 5) == (
        "the build user `no-such-user` does not exist here" if os.geteuid() == 0 else ""
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_root_saves_as_the_build_user(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.parts[:3] != tmp_path.parts[:3] or folder == Path("/tmp"):
            break
        folder.chmod(0o755)
    prefix = tmp_path / "prefix"
    prefix.mkdir()
    os.chown(prefix, 65534, 65534)
    assert save_node_facts(at(prefix, build_user="nobody"), {GPU: ["c1"]}, {}, 5) == ""
    assert facts_file(Prefix(prefix)).stat().st_uid == 65534
    os.chown(prefix, 0, 0)
    facts_file(Prefix(prefix)).unlink()
    os.chown(prefix / "var", 0, 0)
    os.chown(prefix / "var/audit", 0, 0)
    said = save_node_facts(at(prefix, build_user="nobody"), {GPU: ["c1"]}, {}, 5)
    assert "Permission denied" in said  # root never writes there itself: its files would be in the build user's way
