from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.helpers.places import ROOT

TEXT = (ROOT / "dev-lock.txt").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROWS = re.split(r"\n(?=\S)", TEXT.rstrip())


def wanted() -> list[str]:
    project = PROJECT["project"]
    groups = PROJECT["dependency-groups"].values()
    lists = [
        project["dependencies"],
        project["optional-dependencies"]["dev"],
        project["optional-dependencies"]["sbom"],
        PROJECT["build-system"]["requires"],
        *groups,
    ]
    return [row for rows in lists for row in rows if not row.startswith("envmgr[")]


@pytest.mark.parametrize("row", wanted())
def test_dev_lock_has_what_pyproject_asks_for_in_a_version_that_it_allows(row: str) -> None:
    asked = Requirement(row)
    locked = [Requirement(each.partition(" \\")[0]) for each in ROWS]
    found = [each for each in locked if canonicalize_name(each.name) == canonicalize_name(asked.name)]
    assert found
    for each in found:
        (version,) = each.specifier
        assert version.operator == "=="
        assert asked.specifier.contains(version.version, prereleases=True)


@pytest.mark.parametrize("minor", [11, 12, 13, 14])
def test_dev_lock_has_one_version_of_each_package_for_a_python(minor: int) -> None:
    python = {
        "python_version": f"3.{minor}",
        "python_full_version": f"3.{minor}.1",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "sys_platform": "linux",
        "os_name": "posix",
    }
    names = []
    for row in ROWS:
        locked = Requirement(row.partition(" \\")[0])
        if locked.marker is None or locked.marker.evaluate(python):
            names.append(canonicalize_name(locked.name))
    assert len(names) == len(set(names))
    assert {"uv", "pyyaml", "pytest", "reframe-hpc", "setuptools"} <= set(names)


def test_dev_lock_has_sums_and_names_no_place() -> None:
    for row in ROWS:
        assert re.fullmatch(r"[a-z0-9-]+==[^\s/@]+( ; [^\n/@]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+", row), row
