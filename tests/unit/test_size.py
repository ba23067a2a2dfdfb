"""The bounds that `make check` holds the project to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.size import over_bounds, pages

SETTINGS = """\
[tool.envmgr.size]
envmgr = 2
tests = 2
docs = 10
generated = ["docs/made.md"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("envmgr", "tests", "docs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    (tmp_path / "envmgr/a.py").write_text('"""A docstring."""\n\n# A comment.\na = 1\nb = 2\n')
    (tmp_path / "tests/a.py").write_text("a = 1\n")
    (tmp_path / "docs/made.md").write_text("x" * 99)
    (tmp_path / "README.md").write_text("x" * 10)
    return tmp_path


def test_a_project_within_its_bounds_is_fine(project: Path) -> None:
    assert [*over_bounds(project)] == []
    assert pages(project) == (10, 99)


def test_each_bound_that_is_passed_is_named_with_its_numbers(project: Path) -> None:
    (project / "envmgr/b.py").write_text("c = 3\n")
    (project / "docs/page.md").write_text("x")
    assert [*over_bounds(project)] == [
        "envmgr: 3 code lines, over the bound of 2 in pyproject.toml: take something away",
        "docs: 11 bytes by hand, over the bound of 10 in pyproject.toml: take something away",
    ]
