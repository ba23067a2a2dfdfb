"""Modules of others that do not load."""

from __future__ import annotations

from envmgr.audit.checks import site_modules
from tests.helpers.evidence import evidence, told

LOADS = {"site_modules.loads.solver/3.1": "yes"}
UNKNOWN = 'Lmod has detected the following error: The following module(s) are unknown: "mpi/4.1"\n\nPlease check the spelling or version'
BROKEN = (
    "Lmod has detected the following error: Unable to load module because of error when evaluating modulefile:\n"
    "/etc/lmod/modules/solver/3.1.lua: attempt to concatenate a nil value"
)
REFUSES = 'Lmod has detected the following error: Cannot load module "solver/3.1" without these module(s) loaded: gcc'


def lines(*answers: dict[str, str]) -> list[str]:
    nodes = {f"c{number}": facts for number, facts in enumerate(answers, 1)}
    return [line.split(" | ")[0] for line in told(site_modules, evidence(nodes))]


def failed(said: str) -> dict[str, str]:
    return {"site_modules.failed.solver/3.1": said}


def test_what_is_wrong_everywhere_is_told_where_the_module_is_at_fault() -> None:
    assert lines(failed(UNKNOWN), failed(UNKNOWN)) == ["warning c[1-2]: solver/3.1: needs mpi/4.1, which is not there"]
    assert lines(failed(BROKEN)) == [
        "warning c1: solver/3.1: ends in an error: /etc/lmod/modules/solver/3.1.lua: attempt to concatenate a nil value"
    ]


def test_modulefile_that_the_user_may_not_read_anywhere_is_its_sites_will() -> None:
    closed = failed(BROKEN.rpartition(":")[0] + ": Empty or non-existent file\n\nPlease check the modulefile")
    assert lines(closed, closed, closed) == []
    assert lines(LOADS, closed, LOADS)[0].startswith("warning c2: solver/3.1: cannot be loaded: ")


def test_module_that_loads_in_login_shells_alone_is_a_note() -> None:
    (line,) = lines(failed(BROKEN) | {"site_modules.here.solver/3.1": "loads"})
    assert line.startswith("note c1: solver/3.1: in a clean environment it ends in an error: ")


def test_module_that_refuses_by_words_of_its_own_is_its_sites_will_unless_nodes_differ() -> None:
    assert lines(failed(REFUSES), failed(REFUSES), failed(REFUSES)) == []
    (line,) = lines(LOADS, failed(REFUSES), LOADS)
    assert line.startswith("warning c2: solver/3.1: cannot be loaded: ")


def test_program_that_lacks_a_library_on_one_node() -> None:
    lacks = LOADS | {"site_modules.lacks.solver/3.1": "libgomp.so.1 /opt/solver/bin/solver"}
    assert lines(LOADS, lacks, LOADS) == ["warning c2: solver/3.1: libgomp.so.1 is missing for /opt/solver/bin/solver"]
    assert lines(lacks, lacks, lacks) == []  # another module may bring it


def test_module_that_was_not_drawn_or_is_not_listed_is_not_compared() -> None:
    assert lines(LOADS, {}, LOADS) == []


def test_module_whose_loading_does_not_end_is_told_wherever_it_is() -> None:
    endless = failed("no end in 10 s")
    assert lines(endless, endless, endless) == ["warning c[1-3]: solver/3.1: no end in 10 s"]
    assert lines(LOADS, endless, LOADS) == ["warning c2: solver/3.1: no end in 10 s"]
    assert lines(*(endless | {"site_modules.cut": "yes"} for _ in range(3)))[0].startswith(
        "note c[1-3]: the sample: not all of it was loaded"
    )


HAS = {"site_modules.looked.solver/3.1": "yes", "site_modules.has.solver/3.1": "/opt/solver/bin/a\n/opt/solver/bin/b"}


def has(*lines: str) -> dict[str, str]:
    return LOADS | HAS | {"site_modules.has.solver/3.1": "\n".join(lines)}


def test_what_a_module_names_and_brings_is_compared() -> None:
    whole = LOADS | HAS
    assert lines(whole, whole, whole) == []
    gone = has("- /opt/solver/bin")
    assert lines(whole, gone, whole) == ["warning c2: solver/3.1: it names /opt/solver/bin, not there"]
    assert lines(gone, gone, gone) == []  # it may be made when it is needed
    closed = has("! /opt/solver")
    assert lines(whole, whole, closed) == ["warning c3: solver/3.1: it names /opt/solver, which the user cannot enter"]
    assert lines(has("/opt/solver/bin/a"), whole, whole) == ["warning c1: solver/3.1: it lacks /opt/solver/bin/b"]
    assert lines(LOADS, whole, whole) == []  # not looked at in time
    gone = ("- /opt/solver/share", "/opt/solver/bin/a", "/opt/solver/bin/b")
    assert lines(whole, has(*gone), has(*gone)) == [
        "warning c1: solver/3.1: /opt/solver/share, which others lack, is there"
    ]
    assert lines(has("= 70 1a"), has("= 70 2b"), has("= 70 1a")) == ["warning c2: solver/3.1: it has other programs"]


def sets(*lines: str) -> dict[str, str]:
    return LOADS | {"site_modules.sets.solver/3.1": "\n".join(lines)}


def test_times_numbers_of_processes_and_names_of_nodes_are_no_drift() -> None:
    given = {f"c{n}": sets("A=/opt/a", f"AT=179528140{n}", f"ID=tmp.{n}x", f"SCRATCH=/local/c{n}") for n in (1, 2, 3)}
    own = {node: {"host": node} for node in given}
    assert told(site_modules, evidence(given, own=own)) == []
    other = given | {"c2": sets("A=/opt/b", "AT=1795281409", "ID=tmp.2x", "SCRATCH=/local/c2")}
    (line,) = told(site_modules, evidence(other, own=own))
    assert line.startswith("warning c2: solver/3.1: it gives another environment: A=/opt/b | ")


def test_folders_with_the_name_of_a_node_are_alike() -> None:
    given = {f"c{n}": has(f"- /local/c{n}/not-made-yet", f"/local/c{n}/bin/tool") for n in (1, 2, 3)}
    assert told(site_modules, evidence(given, own={node: {"host": node} for node in given})) == []


def test_list_of_modules_that_does_not_end_is_told() -> None:
    (line,) = lines(LOADS, {"site_modules.unlisted": "yes"}, LOADS)
    assert line == "warning c2: the sample: not looked at: no end of `module avail` in 10 s"
    (line,) = lines(LOADS | {"site_modules.odd": "my tool/1.0"}, LOADS, LOADS)
    assert line == "note c1: the sample: not loaded: my tool/1.0"
