"""The programs of an entry in a user environment: text of packages, by which nothing else comes about."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.people.base import BasePackage
from envmgr.people.install import add_programs


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("../../outside", "tool:main"),
        ("/tmp/envmgr-outside", "tool:main"),
        ("..", "tool:main"),
        ("two words", "tool:main"),
        ("python3", "tool:main"),
        ("python", "tool:main"),
        ("tool", "tool"),
        ("tool", "tool:main\nimport evil"),
        ("tool", "os;evil:main"),
        ("tool", "tool:main()"),
        ("tool", "tool:main [x]\nimport evil"),
    ],
)
def test_program_of_the_entry_gets_no_other_place_and_no_other_text(tmp_path: Path, name: str, value: str) -> None:
    folder = tmp_path / "environment"
    (folder / "bin").mkdir(parents=True)
    good = ("good", "tool.cli : main.run [more,extra]")
    package = BasePackage("1.0", (), ((name, value), good))
    add_programs(folder, Path("/store/user/x/bin/python"), [package], "3.11")
    assert [each.relative_to(tmp_path) for each in tmp_path.rglob("*") if each.is_file()] == [
        Path("environment/bin/good")
    ]
    assert "from tool.cli import main" in (folder / "bin/good").read_text()
    assert not Path("/tmp/envmgr-outside").exists()
