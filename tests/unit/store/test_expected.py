"""What an audit has to expect of an install: the first program that a user finds, else any file of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from envmgr.modules.spec import EnvOp
from envmgr.store.expected import NODE_CHECK, ExpectedFile, expected_of
from envmgr.store.tree import TreePath

ROOT = "/sw/store/Tool/1-00000000"


def expected(files: Mapping[str, int], *links: str, folders: tuple[str, ...] = ("bin",)) -> ExpectedFile:
    """Of an install with these files, and a module that prepends these folders to PATH."""
    rows = [TreePath("bin/folder", "dir", 0o555, 0, "", "")]
    rows += [TreePath(path, "file", mode, 1, "", "") for path, mode in files.items()]
    rows += [TreePath(path, "link", 0o777, 0, "", "x") for path in links]
    changes = [EnvOp(kind="prepend", name="PATH", value=f"{ROOT}/{folder}".rstrip("/")) for folder in folders]
    others = [EnvOp(kind="prepend", name="PATH", value="/opt/bin"), EnvOp(kind="set", name="X", value=f"{ROOT}/x")]
    return expected_of(ROOT, rows, [*changes, *others], "Tool")


def test_python_of_an_entry_is_its_first_program() -> None:
    files = {"bin/2to3": 0o555, "bin/Tool": 0o555, "lib/x.py": 0o444}
    found = expected(files, "bin/python")  # behind a link to what is no file of it
    assert found == ExpectedFile(program="bin/python", file="bin/python")
    assert expected({**files, "bin/x": 0o555}, "bin/python").size == 1


@pytest.mark.parametrize(
    ("files", "folders", "program"),
    [
        ({"bin/aaa": 0o555, "bin/Tool": 0o444, "bin/tool": 0o555}, ("bin",), "bin/tool"),
        ({"bin/bbb": 0o555, "bin/aaa": 0o555}, ("bin",), "bin/aaa"),
        ({"bin/aaa": 0o444, "sbin/x": 0o555}, ("bin", "sbin"), "sbin/x"),
        ({"bin/aaa": 0o555, "sbin/x": 0o555}, ("bin", "sbin"), "sbin/x"),  # what is prepended last is found first
        ({"run": 0o555, "bin/x": 0o555}, ("",), "run"),
        ({"lib+c/[a]": 0o555}, ("lib+c",), "lib+c/[a]"),
        ({"bin/x": 0o555}, (), ""),
        ({"bin/x": 0o444}, ("bin",), ""),
    ],
)
def test_first_program_is_the_first_that_a_user_finds(
    files: dict[str, int], folders: tuple[str, ...], program: str
) -> None:
    assert expected(files, "bin/0", folders=folders) == ExpectedFile(
        program=program, file=program or next(iter(files)), size=1
    )


def test_program_that_checks_a_node_is_known() -> None:
    assert expected({NODE_CHECK: 0o555}) == ExpectedFile(file=NODE_CHECK, size=1, checked=True)
