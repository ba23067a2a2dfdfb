"""`envmgr build --gate`: the last audit's facts decide whether a build begins."""

from __future__ import annotations

import json
import time

import pytest

from envmgr.catalog.fitness import NodeFacts, NodeNeeds, gpu_needs
from envmgr.catalog.gpus import Gpu
from envmgr.catalog.recipe_parts import Requires
from envmgr.steps.gate import Unfit, common_denominator, unfit_nodes
from envmgr.store.node_facts import FleetFacts, SeenNodes, facts_file
from envmgr.store.prefix import Prefix
from envmgr.verbs.build import choose_mode
from tests.helpers.sandbox import Sandbox

NEW = NodeFacts(
    driver="535.54.03",
    gpus=(Gpu(vendor="nvidia", arch="8.0", name="NVIDIA A100", driver="535.54.03"),),
    library="535.54.03",
    glibc="2.34",
    arch="x86_64",
    cpu_level="x86-64-v4",
)
OLD = NodeFacts(
    driver="470.57.02",
    gpus=(Gpu(vendor="nvidia", arch="7.5", name="NVIDIA GeForce GTX 1650", driver="470.57.02"),),
    library="470.57.02",
    glibc="2.28",
    arch="x86_64",
    cpu_level="x86-64-v3",
)
LOGIN = NodeFacts(glibc="2.34", arch="x86_64", cpu_level="x86-64-v3")
FLEET = FleetFacts(
    groups={"compute": ("c1", "c2", "c3"), "login": ("login",)},
    seen=(
        SeenNodes(nodes=("c1", "c3"), time=0, facts=NEW),
        SeenNodes(nodes=("c2",), time=0, facts=OLD),
        SeenNodes(nodes=("login",), time=0, facts=LOGIN),
        SeenNodes(nodes=("x1",), time=0, facts=OLD),
    ),
)
LEAST = "lowest common denominator: driver 470.57.02 (c2), compute capability 7.5 (c2), glibc 2.28 (c2), CPU level x86-64-v3 (c2,login)"


def saw(
    sandbox: Sandbox, facts: dict[NodeFacts, tuple[str, ...]], *, days: float = 0, **groups: tuple[str, ...]
) -> str:
    """Put down what an audit saw so many days ago; returns the day."""
    when = time.time() - days * 86400
    seen = tuple(SeenNodes(nodes=nodes, time=when, facts=each) for each, nodes in facts.items())
    path = facts_file(Prefix(sandbox.prefix))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FleetFacts(groups=groups, seen=seen).model_dump_json(by_alias=True))
    return time.strftime("%Y-%m-%d", time.gmtime(when))


def locked(sandbox: Sandbox, gate: str | None = None, **requires: object) -> None:
    if gate is not None:
        sandbox.policies["gate"] = gate
        sandbox.write_site()
    sandbox.recipe("app/1.0", ["hello-prefix"], requires=requires)
    sandbox.ok("lock", "app/1.0")


MIXED: dict[NodeFacts, tuple[str, ...]] = {NEW: ("c1", "c3"), OLD: ("c2",), LOGIN: ("login",)}
COMPUTE = {"compute": ("c1", "c2", "c3"), "login": ("login",)}


@pytest.mark.parametrize(
    ("asked", "policy", "mode"),
    [
        (None, "off", "off"),
        (None, "warn", "warn"),
        (None, "refuse", "refuse"),
        (True, "off", "refuse"),
        (True, "warn", "warn"),
        (True, "refuse", "refuse"),
        (False, "off", "off"),
        (False, "warn", "off"),
        (False, "refuse", "off"),
    ],
)
def test_mode_is_the_sites_unless_asked_otherwise(asked: bool | None, policy: str, mode: str) -> None:
    assert choose_mode(asked, policy) == mode  # type: ignore[arg-type]


def test_unfit_nodes_are_told_by_entry_group_and_reason() -> None:
    asked = {"t/1": Requires(nvidia_driver="525.60.13", glibc="2.34"), "plain/1": Requires()}
    assert unfit_nodes({name: NodeNeeds(each, gpu_needs(each)) for name, each in asked.items()}, FLEET) == (
        Unfit("t/1", "compute", "c2", "driver 470.57.02 is older than 525.60.13"),
        Unfit("t/1", "compute", "c2", "glibc 2.28 is older than 2.34"),
        Unfit("t/1", "in no group", "x1", "driver 470.57.02 is older than 525.60.13"),
        Unfit("t/1", "in no group", "x1", "glibc 2.28 is older than 2.34"),
    )


def test_common_denominator_names_the_nodes_that_have_no_more() -> None:
    assert common_denominator(FLEET) == (
        "driver 470.57.02 (c2,x1), compute capability 7.5 (c2,x1), glibc 2.28 (c2,x1), CPU level x86-64-v3 (c2,login,x1)"
    )
    assert common_denominator(FleetFacts(seen=(SeenNodes(nodes=("c1",), time=0, facts=NodeFacts()),))) == ""


def test_gate_refuses_without_an_audit(sandbox: Sandbox) -> None:
    locked(sandbox)
    done = sandbox.run("build", "--gate", "app/1.0")
    assert done.code == 3
    assert done.stderr == (
        "error[gate-no-facts]: no audit has found out yet what the nodes can run\n"
        f"  nothing in {facts_file(Prefix(sandbox.prefix))}\n\n"
        "hint: `envmgr audit`, then build; `--no-gate` builds without asking\n"
    )
    assert not (sandbox.prefix / "store").exists()


def test_gate_refuses_before_anything_is_built_and_shows_what_nodes_have(sandbox: Sandbox) -> None:
    locked(sandbox, "refuse", nvidia_driver="525.60.13", cpu_level="x86-64-v4")
    day = saw(sandbox, MIXED, **COMPUTE)
    for extra in ([], ["--dry-run"]):
        done = sandbox.run("build", "app/1.0", *extra)
        assert done.code == 3
        assert done.stderr == (
            "error[gate-unfit]: not every node can run app/1.0\n"
            "  app/1.0, compute: driver 470.57.02 is older than 525.60.13 (c2)\n"
            "  app/1.0, compute: CPU level x86-64-v3 is below x86-64-v4 (c2)\n"
            "  app/1.0, login: CPU level x86-64-v3 is below x86-64-v4 (login)\n"
            f"  {LEAST}\n"
            f"  audited since {day}\n\n"
            "hint: require less, or fix the nodes and run `envmgr audit`; `--no-gate` builds anyway\n"
        )
    assert not (sandbox.prefix / "store").exists()
    assert sandbox.ok("build", "--no-gate", "--dry-run", "app/1.0").stderr == ""


def test_gate_that_warns_builds_and_has_it_in_the_result(sandbox: Sandbox) -> None:
    locked(sandbox, "warn", glibc="2.30")
    day = saw(sandbox, MIXED, **COMPUTE)
    lines = [
        "not every node can run app/1.0",
        "app/1.0, compute: glibc 2.28 is older than 2.30 (c2)",
        LEAST,
        f"audited since {day}",
    ]
    done = sandbox.ok("build", "app/1.0", "--dry-run")
    assert [line for line in done.stderr.splitlines() if "warning" in line] == [f"warning: {line}" for line in lines]
    assert sandbox.ok("build", "app/1.0", "--format", "json").data["gate"] == lines
    assert sandbox.current() == 1
    again = sandbox.ok("build", "app/1.0", "--format", "json").data
    assert (again["gate"], again["generation"]) == ([], None)  # nothing to do: nothing to ask


def test_gate_that_warns_says_when_there_was_no_audit(sandbox: Sandbox) -> None:
    locked(sandbox, "warn")
    done = sandbox.ok("build", "app/1.0", "--dry-run")
    assert "warning: no audit has found out yet what the nodes can run\n" in done.stderr


def test_gate_lets_pass_what_all_nodes_can_run(sandbox: Sandbox) -> None:
    locked(sandbox, "refuse", nvidia_driver="450.80.02", glibc="2.28", cpu_level="x86-64-v2")
    saw(sandbox, MIXED, **COMPUTE)
    done = sandbox.ok("build", "app/1.0", "--dry-run", "--format", "json")
    assert (done.data["gate"], done.stderr) == ([], "")


def test_gate_says_what_is_not_known_and_lets_it_pass(sandbox: Sandbox) -> None:
    locked(sandbox, "refuse", nvidia_driver="450.80.02", compute_capability=["7.5", "8.0"])
    saw(sandbox, MIXED, **COMPUTE)
    done = sandbox.ok("build", "app/1.0", "--dry-run", "--format", "json")
    said = "app/1.0 whether it runs is not known: the CUDA version of its lock is not known (c[1-3])"
    assert done.data["gate"] == [said]


def test_gate_refuses_nodes_whose_gpus_it_has_no_code_for(sandbox: Sandbox) -> None:
    locked(sandbox, "refuse", nvidia_driver="450.80.02", compute_capability=["8.0"])
    saw(sandbox, MIXED, **COMPUTE)
    done = sandbox.run("build", "app/1.0", "--dry-run")
    assert done.code == 3
    assert "  app/1.0, compute: compute capability 7.5: it has code for 8.0 (c2)\n" in done.stderr


def test_gate_says_that_no_node_has_a_gpu(sandbox: Sandbox) -> None:
    locked(sandbox, "refuse", nvidia_driver="450.80.02")
    saw(sandbox, {LOGIN: ("c1",)})
    done = sandbox.ok("build", "app/1.0", "--dry-run")
    assert "warning: app/1.0 needs a GPU, and no node that the last audit saw has one\n" in done.stderr


def test_gate_says_that_facts_are_old(sandbox: Sandbox) -> None:
    locked(sandbox, "refuse")
    saw(sandbox, {LOGIN: ("c1", "c2")}, days=45)
    done = sandbox.ok("build", "app/1.0", "--dry-run")
    assert "warning: c[1-2]: last audited up to 45 days ago; `envmgr audit` looks again\n" in done.stderr


def test_gate_with_damaged_facts(sandbox: Sandbox) -> None:
    locked(sandbox)
    path = facts_file(Prefix(sandbox.prefix))
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"schema": 1, "seen": 7}))
    done = sandbox.run("build", "--gate", "app/1.0")
    assert done.code == 3
    assert done.stderr.startswith(f"error[node-facts-damaged]: {path} cannot be read\n")


def test_report_for_a_merge_request_has_the_verdict_of_each_group(sandbox: Sandbox) -> None:
    locked(sandbox, nvidia_driver="525.60", compute_capability=["8.0"])
    saw(sandbox, MIXED, **COMPUTE, new=("c9",))
    data = sandbox.ok("report", "--pull-request", "--format", "json").data
    (row,) = data["entries"]
    assert data["nodes_known"] is True
    said = [(each.partition(": ")[0], each.rpartition(" ")[2]) for each in row["gpus"]]
    assert said == [("compute", "(c[1,3])"), ("compute", "(c2)"), ("login", "(login)"), ("new", "(c9)")]
    assert row["gpus"][1:] == [
        "compute: too-old: driver 470.57.02 is older than 525.60 (c2)",
        "login: no-gpu: no GPU (login)",
        "new: not seen: no audit has looked at it (c9)",
    ]
    assert f"- `app/1.0`: `{row['gpus'][1]}`\n" in sandbox.ok("report", "--pull-request").stdout
