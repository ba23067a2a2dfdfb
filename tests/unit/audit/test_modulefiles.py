"""Modulefiles of others, by content."""

from __future__ import annotations

from typing import Any

from envmgr.audit.checks import modulefiles
from envmgr.audit.judge import rows_of
from envmgr.audit.model import Found
from tests.helpers.evidence import as_check, evidence, found, told

A, B = "a" * 16, "b" * 16


def has(folder: str, *files: str, number: int = 1) -> dict[str, str]:
    """Facts of a node; the sum is made up of the files."""
    return {
        f"modulefiles.sum.{number}": f"{'+'.join(files).replace(' ', '')} {folder}",
        f"modulefiles.files.{number}": "\n".join(files),
    }


def accused(**nodes: dict[str, str]) -> list[Any]:
    return [(f.nodes, f.between, f.where, f.found) for f in found(modulefiles, evidence(nodes))]


def test_file_of_other_content_is_told_on_its_node() -> None:
    right, wrong = (
        has("/opt/m", f"{A}  ./x/1.lua", f"{A}  ./y/1.lua"),
        has("/opt/m", f"{A}  ./x/1.lua", f"{B}  ./y/1.lua"),
    )
    assert accused(c1=right, c2=wrong, c3=right) == [("c2", "", "/opt/m", "other content: y/1.lua")]
    assert accused(c1=right, c2=wrong) == [("", "c[1-2]", "/opt/m", "different content: y/1.lua")]
    assert accused(c1=right, c2=right, c3=right) == []


def test_file_of_other_content_is_against_the_nodes_that_are_right() -> None:
    right, wrong = has("/opt/m", f"{A}  ./x/1.lua"), has("/opt/m", f"{B}  ./x/1.lua")
    rows = rows_of(as_check(modulefiles), evidence({"c1": right, "c2": wrong, "c3": right}))
    assert [row.against for row in rows if isinstance(row, Found)] == [("c1", "c3")]


def test_other_names_are_told_by_another_check() -> None:
    right = has("/opt/m", f"{A}  ./x/1.lua")
    assert accused(c1=right, c2=has("/opt/m", f"{A}  ./x/2.lua"), c3=right) == []


def test_folders_are_compared_by_name_and_not_by_place() -> None:
    two = has("/opt/b", f"{A}  ./x/1.lua", number=1) | has("/opt/a", f"{A}  ./x/1.lua", number=2)
    one = has("/opt/a", f"{A}  ./x/1.lua", number=1)
    assert accused(c1=two, c2=one, c3=two) == []


def test_difference_behind_what_is_listed_is_no_agreement() -> None:
    right = has("/opt/m", f"{A}  ./x/1.lua")
    wrong = right | {"modulefiles.sum.1": "0 /opt/m"}
    assert accused(c1=right, c2=wrong, c3=right) == [("c2", "", "/opt/m", "other content: files behind the first 1")]


def test_folder_that_hangs_is_told() -> None:
    given = evidence({"c1": {"modulefiles.unread": "/opt/m"}, "c2": {}, "c3": {}})
    assert [line.partition(" | ")[0] for line in told(modulefiles, given)] == [
        "warning c1: /opt/m: not looked at: no end in 5 s"
    ]


def names(absent: str) -> dict[str, str]:
    return has("/opt/m", f"{A}  ./x/1.lua") | {"modulefiles.named.1": "yes", "modulefiles.absent.1": absent}


def test_path_that_one_node_lacks_is_told_and_one_that_it_alone_has_is_not() -> None:
    lacks, nothing = names("x/1.lua /opt/x"), names("")
    assert accused(c1=nothing, c2=lacks, c3=nothing) == [
        ("c2", "", "/opt/m", "x/1.lua names /opt/x, which is not there")
    ]
    assert accused(c1=lacks, c2=nothing, c3=lacks) == []
    assert accused(c1=lacks, c2=lacks, c3=lacks) == []


def test_paths_that_were_not_looked_at_to_the_end_are_not_compared() -> None:
    cut = has("/opt/m", f"{A}  ./x/1.lua")
    assert accused(c1=names("x/1.lua /opt/x"), c2=cut, c3=names("x/1.lua /opt/x")) == []
