"""Wheels are what requirements ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from envmgr.wheels.answers import asks_for_all, needed_of, unmet_requirements
from envmgr.wheels.locked import Distribution
from envmgr.wheels.requirements import Question

PLATFORM = "x86_64-manylinux_2_28"


def part(version: str, *requires: str) -> Distribution:
    return Distribution(version, requires)


def question(*asked: str) -> Question:
    return Question(requirements=asked, indexes=("pypi",), platform=PLATFORM)


@pytest.mark.parametrize(
    ("asked", "versions", "expected"),
    [
        (["alpha==1.0"], {"alpha": "1.0"}, []),
        (["Al_pha>=1"], {"al-pha": "1.0+cu118"}, []),
        (["alpha==1.0.*"], {"alpha": "1.0.0rc1"}, []),
        (["alpha; python_version < '3.11'"], {}, []),
        (["alpha; sys_platform == 'win32'", "beta"], {"beta": "1"}, []),
        (["alpha>=1"], {"alpha": "a version of conda's"}, []),
        (["alpha; platform_release >= '1'"], {}, []),  # the kernel of this host decides nothing
        (["alpha==1.0"], {"alpha": "2.0"}, ["the recipe needs `alpha==1.0`, the lock has alpha 2.0"]),
        (["alpha[x]", "beta"], {"beta": "1"}, ["the recipe needs `alpha[x]`, which the lock lacks"]),
    ],
)
def test_each_requirement_has_its_package(
    asked: Sequence[str], versions: Mapping[str, str], expected: Sequence[str]
) -> None:
    found = unmet_requirements(asked, versions, "3.11.7", PLATFORM)
    assert [fault.text for fault in found] == [*expected]


@pytest.mark.parametrize(
    ("asked", "requires", "needed"),
    [
        ("alpha", ["beta"], {"alpha", "beta"}),
        ("alpha", ["beta; extra == 'x'"], {"alpha"}),
        ("alpha[X_y]", ["beta; extra == 'x-y'"], {"alpha", "beta"}),
        ("alpha[all]", ["alpha[x]; extra == 'all'", "beta; extra == 'x'"], {"alpha", "beta"}),
        ("alpha", ["beta; python_full_version < '3.11.7'"], {"alpha"}),
        ("alpha", ["beta (>=1.*)", "alpha"], {"alpha"}),  # the first one only old tools read
    ],
)
def test_names_that_a_requirement_needs(asked: str, requires: Sequence[str], needed: set[str]) -> None:
    assert needed_of(question(asked), {"alpha": part("1", *requires), "beta": part("1")}, "3.11.7") == needed


def test_requirement_that_brings_every_kind() -> None:
    def kinds(versions: Mapping[str, str]) -> set[str]:
        return {name[0] for name in versions}

    parts = {"alpha": part("1", "beta"), "beta": part("1"), "gamma": part("1", "alpha")}
    wanted = question("beta", "alpha", "gamma", "gamma; python_version < '3'")
    assert asks_for_all(wanted, parts, "3.11.8", kinds) == "gamma"
    assert asks_for_all(wanted, {**parts, "delta": part("1")}, "3.11.8", kinds) == ""
