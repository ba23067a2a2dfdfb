"""A node's own name: whom the check of names accuses, and how badly."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from envmgr.audit.ask.peer_addresses import drawn, peers_here
from envmgr.audit.checks import names
from envmgr.catalog.recipe_parts import Requires, SmokeTest
from envmgr.system.run import Runner
from tests.helpers.evidence import evidence, found, told

LOOKED = {"names.looked.node": "yes", "names.own": ""}
LOOP = LOOKED | {"names.own": "127.0.1.1", "names.line": "/etc/hosts:2", "names.other": "yes"}
SEVERAL = SmokeTest(name="allreduce", run="srun ./sum", needs=("slurm",), nodes=2)


def findings(answers: dict[str, dict[str, str]], *, tests: tuple[SmokeTest, ...] = (), **more: object) -> list[str]:
    given = evidence(answers, entries={"mpich/4.3": Requires()}, **more)  # type: ignore[arg-type]
    assert given.published is not None
    specs = {entry: spec.model_copy(update={"tests": tests}) for entry, spec in given.published.specs.items()}
    return told(names, replace(given, published=replace(given.published, specs=specs)))


ENDS = "MPI, Gloo and NCCL take the address from there"
ONE = f"its own name: resolves to 127.0.1.1 on the node itself | the node's address | /etc/hosts:2 names the node: take that line away; {ENDS}"


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
        f"error c[1-2]: {ONE}",
        f"warning login: {ONE}",
    ]


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
            (
                f"resolves to 127.0.1.1 on the node itself | the node's address | on the node: the node's own address in the line /etc/hosts:9: {ENDS}; "
                "cloud-init writes it again at each start: `manage_etc_hosts: false` in its settings"
            ),
        ),
    ],
)
def test_each_kind_has_its_own_way_out(facts: dict[str, str], said: str) -> None:
    assert findings({"c1": LOOKED, "c2": LOOKED | facts}) == [f"warning c2: its own name: {said}"]


# -- the names of the other nodes ------------------------------------------------------------------------------------------

PEERS = {"c1": "10.0.0.1", "c2": "10.0.0.2", "c3": "10.0.0.3"}
OWN = {node: {"addresses": address} for node, address in PEERS.items()}
OLD = LOOKED | {"names.peers": "c3 10.0.0.9 /etc/hosts:6"}


def peers(answers: dict[str, dict[str, str]], *, own: dict[str, dict[str, str]] = OWN, **more: object) -> list[str]:
    given = evidence(answers, own=own, **more)  # type: ignore[arg-type]
    return told(names, replace(given, plan=replace(given.plan, peers=PEERS)))


def test_address_that_the_other_node_does_not_have_is_told_of_the_node_that_has_it_for_it() -> None:
    assert peers({"c1": LOOKED, "c2": OLD, "c3": LOOKED}) == [
        (
            "error c2: names of other nodes: c3 is 10.0.0.9 (/etc/hosts:6): jobs over both fail | c3 is 10.0.0.3, which it has | "
            "on the node: `sed -i '6s/^[^[:space:]]*/10.0.0.3/' /etc/hosts`"
        )
    ]
    assert peers(dict.fromkeys(PEERS, LOOKED)) == []


@pytest.mark.parametrize("place", ["/etc/hosts:6e id;", "/etc/hosts:1;id", "/etc/hosts:"])
def test_place_that_a_node_makes_up_gets_into_no_command(place: str) -> None:
    (line,) = peers(
        {"c1": LOOKED, "c2": LOOKED | {"names.peers": f"c3 10.0.0.9 {place.replace(' ', chr(9))}"}, "c3": LOOKED}
    )
    assert "sed" not in line


def test_address_that_a_node_makes_up_gets_into_no_command() -> None:
    made_up = "1/e'$(id)'"
    own = OWN | {"c3": {"addresses": made_up}}
    answers = {"c1": LOOKED | {"names.peers": f"c3 {made_up} /etc/hosts:6"}, "c2": OLD, "c3": LOOKED}
    assert all("sed" not in line for line in peers(answers, own=own))


def test_this_host_may_see_nodes_by_other_addresses_than_they_do() -> None:
    lines = [f"{name} 192.0.2.{number}" for number, name in enumerate(PEERS, 1)]
    others = {node: "\n".join(x for x in lines if not x.startswith(node)) for node in PEERS}
    assert peers({node: LOOKED | {"names.peers": said} for node, said in others.items()}) == []


def test_name_that_is_not_known_on_one_node_is_to_be_added_there() -> None:
    assert peers({"c1": LOOKED, "c2": LOOKED | {"names.peers": "c3 -"}, "c3": LOOKED}) == [
        (
            "error c2: names of other nodes: c3 resolves to nothing: jobs over both fail | c3 is 10.0.0.3, which it has | "
            "on the node: `printf '\\n%s\\n' '10.0.0.3 c3' >>/etc/hosts`, or fix the DNS that it asks"
        )
    ]


def test_name_is_taken_out_of_a_line_that_others_share(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    here = os.uname().nodename

    def mended(text: str, facts: dict[str, str]) -> str:
        hosts.write_text(text)
        given = evidence({"c1": LOOKED, "c2": facts, "c3": LOOKED}, own=OWN)
        (finding,) = found(names, replace(given, plan=replace(given.plan, peers=PEERS)))
        (command,) = [action.command for action in finding.actions if action.do == "run"]
        subprocess.run(["/bin/sh", "-c", command.replace("/etc/hosts", str(hosts))], check=True)
        return hosts.read_text()

    peer = LOOKED | {"names.peers": "c3 127.0.0.1 /etc/hosts:1 shared"}
    line = "127.0.0.1 localhost c3 c30\n"
    assert mended(f"{line}10.0.0.1 c1", peer) == "127.0.0.1 localhost c30\n10.0.0.1 c1\n10.0.0.3 c3\n"
    both = LOOKED | {"names.peers": "c3 10.0.0.3,127.0.0.1 /etc/hosts:1 shared"}
    assert mended(f"{line}10.0.0.3 c3\n", both) == "127.0.0.1 localhost c30\n10.0.0.3 c3\n"
    own = LOOP | {"names.line": "/etc/hosts:1", "names.shared": "yes"}
    assert mended(f"127.0.0.1 localhost {here.upper()} x\n", own) == "127.0.0.1 localhost x\n"


def test_own_name_that_only_the_line_of_localhost_has_is_for_people() -> None:
    alone = LOOKED | {"names.own": "127.0.0.1", "names.line": "/etc/hosts:1", "names.shared": "yes"}
    (line,) = findings({"c1": LOOKED, "c2": alone})
    assert line.endswith(
        f"| on the node: the node's own address in a line of its own, and not in /etc/hosts:1, which others share: {ENDS}"
    )


def test_many_names_of_an_old_file_are_one_finding() -> None:
    said = "\n".join(f"c{n} 10.9.0.{n} /etc/hosts:{n}" for n in (1, 3))
    (line,) = peers({"c1": LOOKED, "c2": LOOKED | {"names.peers": said}, "c3": LOOKED})
    assert line.startswith(
        "error c2: names of other nodes: c1 is 10.9.0.1 (/etc/hosts:1); c3 is 10.9.0.3 (/etc/hosts:3): "
    )


def test_two_addresses_of_one_node_accuse_by_most_and_groups_are_apart() -> None:
    own = OWN | {"c4": {"addresses": "10.0.0.4 10.1.0.4"}}
    by_ib = LOOKED | {"names.peers": "c4 10.1.0.4"}
    by_ethernet = LOOKED | {"names.peers": "c4 10.0.0.4"}
    (line,) = peers({"c1": by_ethernet, "c2": by_ib, "c3": by_ethernet, "c4": LOOKED}, own=own)
    assert line.startswith("warning c2: the name c4: is 10.1.0.4 | is 10.0.0.4, as on c[1,3]")
    groups = {"a": ("c1", "c3", "c4"), "b": ("c2",)}
    assert peers({"c1": by_ethernet, "c2": by_ib, "c3": by_ethernet, "c4": LOOKED}, own=own, groups=groups) == []


def test_node_that_did_not_resolve_all_is_no_witness() -> None:
    (line,) = peers({"c1": LOOKED, "c2": LOOKED | {"names.peers_hung": "yes"}, "c3": LOOKED})
    assert line.startswith("note c2: names of the nodes: not looked at: ")


def test_names_here_are_as_getent_says() -> None:
    found = peers_here(["localhost", "no-such-node.invalid", "127.0.0.1"], 0, Runner(), 20)
    assert found.keys() == {"localhost", "no-such-node.invalid"}
    assert found["localhost"] in ("127.0.0.1", "::1")
    assert found["no-such-node.invalid"] == "-"


def test_of_very_many_nodes_some_names_are_asked_for_and_others_tomorrow() -> None:
    nodes = [f"c{n}" for n in range(1000)]
    days = [drawn(nodes, day) for day in range(4)]
    assert [len(names) for names in days] == [256] * 4
    assert {name for names in days for name in names} == {*nodes}
    assert drawn(nodes[:256], 7) == nodes[:256]
