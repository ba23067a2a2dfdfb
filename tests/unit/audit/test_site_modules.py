"""Modules of others that do not load, and that nodes have otherwise than other nodes."""

from __future__ import annotations

from dataclasses import replace

from envmgr.audit.checks import get_check
from envmgr.audit.judge import judge
from tests.helpers.evidence import evidence

LOADS = {"site_modules.loads.solver/3.1": "yes"}
UNKNOWN = 'Lmod has detected the following error: The following module(s) are unknown: "mpi/4.1"\n\nPlease check the spelling or version'
BROKEN = (
    "Lmod has detected the following error: Unable to load module because of error when evaluating modulefile:\n"
    "/etc/lmod/modules/solver/3.1.lua: attempt to concatenate a nil value"
)
REFUSES = 'Lmod has detected the following error: Cannot load module "solver/3.1" without these module(s) loaded: gcc'


CHECKS = {name: replace(get_check(name), probe=lambda _: {}) for name in ("site-modules", "inventory")}


def lines(*answers: dict[str, str]) -> list[str]:
    """`SEVERITY NODES: FOUND` of each finding, of nodes c1, c2 …"""
    nodes = {f"c{number}": facts for number, facts in enumerate(answers, 1)}
    own = {node: {"host": node} for node in nodes}
    found = judge(evidence(nodes, own=own), CHECKS).findings
    return [f"{each.severity} {each.nodes}: {each.found}" for each in found]


def failed(said: str) -> dict[str, str]:
    return {"site_modules.failed.solver/3.1": said}


def test_what_is_wrong_everywhere_is_told_where_the_module_is_at_fault() -> None:
    assert lines(failed(UNKNOWN), failed(UNKNOWN)) == ["warning c[1-2]: needs mpi/4.1, which is not there"]
    assert lines(failed(BROKEN)) == [
        "warning c1: ends in an error: /etc/lmod/modules/solver/3.1.lua: attempt to concatenate a nil value"
    ]


def test_module_that_its_site_refuses_is_told_where_nodes_differ() -> None:
    closed = BROKEN.rpartition(":")[0] + ": Empty or non-existent file\n\nPlease check the modulefile"
    for said in (closed, REFUSES):
        assert lines(failed(said), failed(said), failed(said)) == []
        words = " ".join(said.split())
        assert lines(LOADS | sets("A=1"), failed(said), LOADS | sets("A=1")) == [
            f"warning c2: solver/3.1 load: it does not load: {words}; it loads on others"
        ]


def test_module_that_loads_in_login_shells_alone_is_a_note() -> None:
    (line,) = lines(failed(BROKEN) | {"site_modules.here.solver/3.1": "loads"})
    assert line.startswith("note c1: in a clean environment it ends in an error: ")


def test_module_that_was_not_drawn_or_is_not_listed_is_not_compared() -> None:
    assert lines(LOADS, {}, LOADS) == []


def test_module_whose_loading_does_not_end_is_told_wherever_it_is() -> None:
    endless = failed("no end in 10 s")
    assert lines(endless, endless, endless) == ["warning c[1-3]: no end in 10 s"]
    assert lines(*(endless | {"site_modules.cut": "yes"} for _ in range(3)))[0].startswith(
        "warning c[1-3]: no end in 10 s"
    )


HAS = {"site_modules.looked.solver/3.1": "yes", "site_modules.has.solver/3.1": "/opt/solver/bin/a\n/opt/solver/bin/b"}


def has(*lines: str) -> dict[str, str]:
    return LOADS | HAS | {"site_modules.has.solver/3.1": "\n".join(lines)}


def test_what_a_module_names_and_brings_is_compared() -> None:
    whole = LOADS | HAS
    assert lines(whole, whole, whole) == []
    gone = has("- /opt/solver/share", "/opt/solver/bin/a", "/opt/solver/bin/b")
    names = "solver/3.1 names /opt/solver"
    assert lines(whole, gone, whole) == [f"warning c2: {names}/share, which is not there; there on others"]
    assert lines(gone, gone, gone) == []  # it may be made when it is needed
    assert lines(whole, gone, gone) == [f"warning c1: {names}/share, which is there; not there on others"]
    closed = has("! /opt/solver", "/opt/solver/bin/a", "/opt/solver/bin/b")
    assert lines(whole, whole, closed) == [f"warning c3: {names}, which is closed; there on others"]
    assert lines(has("/opt/solver/bin/a"), whole, whole) == [
        f"warning c1: {names}/bin/b, which is not there; there on others"
    ]
    assert lines(LOADS, whole, whole) == []  # not looked at in time
    assert lines(has("= 70 1a"), has("= 70 2b"), has("= 70 1a")) == [
        "warning c2: solver/3.1 brings other programs: 70 2b; 70 1a on others"
    ]


def sets(*lines: str) -> dict[str, str]:
    return LOADS | {"site_modules.sets.solver/3.1": "\n".join(lines)}


def test_times_numbers_of_processes_and_names_of_nodes_are_no_drift() -> None:
    given = [sets("A=/opt/a", f"AT=179528140{n}", f"ID=tmp.{n}x", f"SCRATCH=/local/c{n}") for n in (1, 2, 3)]
    assert lines(*given) == []
    given[1] = sets("A=/opt/b", "AT=1795281409", "ID=tmp.2x", "SCRATCH=/local/c2")
    assert lines(*given) == ["warning c2: solver/3.1 sets A to /opt/b; /opt/a on others"]
    given[1] = sets("AT=1795281409", "ID=tmp.2x", "SCRATCH=/local/c2")
    assert lines(*given) == ["warning c2: solver/3.1 sets A to nothing; /opt/a on others"]


def test_folders_with_the_name_of_a_node_are_alike() -> None:
    assert lines(*(has(f"- /local/c{n}/not-made-yet", f"/local/c{n}/bin/tool") for n in (1, 2, 3))) == []


def test_list_of_modules_that_does_not_end_is_told() -> None:
    (line,) = lines(LOADS, {"site_modules.unlisted": "yes"}, LOADS)
    assert line == "warning c2: not looked at: no end of `module avail` in 10 s"
