"""A node's own name: whom the check of names accuses, and how badly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envmgr.audit.checks import names
from envmgr.catalog.recipe import Requires, SmokeTest
from tests.helpers.evidence import evidence, told

LOOKED = {"names.looked.node": "yes", "names.own": ""}
LOOP = LOOKED | {"names.own": "127.0.1.1", "names.line": "/etc/hosts:2", "names.other": "yes"}
SEVERAL = SmokeTest(name="allreduce", run="srun ./sum", needs=("slurm",), nodes=2)


def findings(answers: dict[str, dict[str, str]], *, tests: tuple[SmokeTest, ...] = (), **more: object) -> list[str]:
    given = evidence(answers, entries={"mpich/4.3": Requires()}, **more)  # type: ignore[arg-type]
    assert given.published is not None
    specs = {entry: spec.model_copy(update={"tests": tests}) for entry, spec in given.published.specs.items()}
    return told(names, replace(given, published=replace(given.published, specs=specs)))


ENDS = "MPI, Gloo and NCCL take the address from there"
ONE = f"its own name: resolves to 127.0.1.1 on the node itself | the node's address | on the node: take the line /etc/hosts:2 away: {ENDS}"


@pytest.mark.parametrize(
    ("tests", "severity"), [((), "warning"), ((SmokeTest(name="one", run=":"),), "warning"), ((SEVERAL,), "error")]
)
def test_loopback_hangs_jobs_where_entries_span_nodes(tests: tuple[SmokeTest, ...], severity: str) -> None:
    answers = {"c1": LOOKED, "c2": LOOP, "c3": LOOKED}
    assert findings(answers, tests=tests) == [f"{severity} c2: {ONE}"]
    assert findings({"c1": LOOKED, "c2": LOOKED}, tests=tests) == []


def test_loopback_on_all_nodes_is_wrong_on_all_and_no_less() -> None:
    assert findings(dict.fromkeys(["c1", "c2", "c3"], LOOP), tests=(SEVERAL,)) == [f"error c[1-3]: {ONE}"]


def test_site_of_one_node_is_not_accused() -> None:
    assert findings({"desk": LOOP}, tests=(SEVERAL,)) == []
    of_one = {"gpu": ("desk",)}
    assert findings({"desk": LOOP}, tests=(SEVERAL,), groups=of_one) == []
    with_login = {"groups": {"gpu": ("desk", "login")}, "login": frozenset({"login"})}
    assert findings({"desk": LOOP, "login": LOOP}, tests=(SEVERAL,), **with_login) == []


def test_one_node_that_is_asked_of_a_site_of_several_is_told() -> None:
    assert findings({"c2": LOOP}, groups={"gpu": ("c1", "c2")}) == [f"warning c2: {ONE}"]


def test_no_job_runs_on_a_login_node() -> None:
    more = {"groups": {"all": ("c1", "c2", "login")}, "login": frozenset({"login"})}
    assert findings({"c1": LOOP, "c2": LOOP, "login": LOOP}, tests=(SEVERAL,), **more) == [
        f"error c[1-2]: {ONE}", f"warning login: {ONE}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            {"names.own": "nothing"},
            "resolves to nothing | the node's address | on the node: its name with its own address in /etc/hosts, or in DNS: MPI, Gloo and NCCL take it from there",
        ),
        (
            {"names.foreign": "10.9.9.9", "names.line": "/etc/hosts:3"},
            f"resolves to 10.9.9.9, an address that the node does not have | the node's address | on the node: the node's own address in the line /etc/hosts:3: {ENDS}",
        ),
        (
            {"names.own": "127.0.1.1", "names.line": "/etc/hosts:9", "names.writer": "cloud-init"},
            (f"resolves to 127.0.1.1 on the node itself | the node's address | on the node: the node's own address in the line /etc/hosts:9: {ENDS}; "
            "cloud-init writes it anew at each start: `manage_etc_hosts: false` in its settings"),
        ),
    ],
)  # fmt: skip
def test_each_kind_has_its_own_way_out(facts: dict[str, str], said: str) -> None:
    assert findings({"c1": LOOKED, "c2": LOOKED | facts}) == [f"warning c2: its own name: {said}"]
