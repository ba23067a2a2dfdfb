"""Wheels are what requirements ask for: nothing needed is missing, nothing is there that nothing needs."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping, Sequence

import pytest

from envmgr.wheels.answers import asks_for_all, closure_faults
from envmgr.wheels.locked import Distribution
from envmgr.wheels.requirements import MOST_ROWS, Question

PLATFORM = "x86_64-manylinux_2_28"


def faults(
    asked: Sequence[str], parts: dict[str, Distribution], *, limits: Sequence[str] = (), python: str = "3.11.7"
) -> list[str]:
    wanted = Question(requirements=tuple(asked), constraints=tuple(limits), indexes=("pypi",), platform=PLATFORM)
    return [fault.text for fault in closure_faults(wanted, parts, python)]


def part(version: str, *requires: str) -> Distribution:
    return Distribution(version, requires)


@pytest.mark.parametrize(
    ("asked", "parts"),
    [
        (["alpha==1.0"], {"alpha": part("1.0")}),
        (["Al_pha>=1"], {"al-pha": part("1.0+cu118")}),
        (["alpha==1.0.*"], {"alpha": part("1.0.0rc1")}),
        (["alpha; python_version < '3.11'"], {}),
        (["alpha; sys_platform == 'win32'", "beta"], {"beta": part("1")}),
        (["alpha"], {"alpha": part("1", "beta>=2"), "beta": part("2")}),
        (["alpha"], {"alpha": part("1", "beta; extra == 'x'")}),
        (["alpha[x]"], {"alpha": part("1", "beta; extra == 'x'"), "beta": part("2")}),
        (["alpha[X_y]"], {"alpha": part("1", "beta; extra == 'x-y'"), "beta": part("2")}),
        (["alpha[all]"], {"alpha": part("1", "alpha[x]; extra == 'all'", "beta; extra == 'x'"), "beta": part("2")}),
        (["alpha"], {"alpha": part("1", "beta[x]"), "beta": part("2", "gamma; extra=='x'"), "gamma": part("1")}),
        (["alpha"], {"alpha": part("1", "beta; python_full_version < '3.11.7'", "c; platform_machine == 'aarch64'")}),
        (["alpha"], {"alpha": part("1", "beta (>=1.*)"), "beta": part("2")}),  # which only old tools read
        (["alpha"], {"alpha": part("1", "beta"), "beta": part("1", "alpha")}),
        (["alpha"], {"alpha": Distribution("1", None), "beta": part("1")}),  # whose needs nobody said
    ],
)
def test_wheels_that_answer(asked: Sequence[str], parts: dict[str, Distribution]) -> None:
    assert faults(asked, parts) == []


@pytest.mark.parametrize(
    ("asked", "parts", "expected"),
    [
        (["alpha==1.0"], {"alpha": part("2.0")}, ["the recipe needs `alpha==1.0`, the lock has alpha 2.0"]),
        (["alpha", "beta"], {"alpha": part("1")}, ["the recipe needs `beta`, which the lock lacks"]),
        (
            ["alpha"],
            {"alpha": part("1", "beta>=2"), "beta": part("1")},
            ["alpha 1 needs `beta>=2`, the lock has beta 1"],
        ),
        (["alpha"], {"alpha": part("1", "beta>=2")}, ["alpha 1 needs `beta>=2`, which the lock lacks"]),
        (
            ["alpha"],
            {"alpha": part("1"), "evil": part("6.6")},
            ["evil 6.6 is in the lock, and neither the recipe nor another package needs it"],
        ),
        (
            ["alpha"],
            {"alpha": part("1", "evil; extra == 'x'"), "evil": part("6.6")},
            ["evil 6.6 is in the lock, and neither the recipe nor another package needs it"],
        ),
        (
            ["alpha[x]"],
            {"alpha": part("1", 'beta; extra == "x"')},
            ['alpha 1 needs `beta; extra == "x"`, which the lock lacks'],
        ),
        (
            ["a; python_version < '3.11'"],
            {"a": part("1")},
            ["a 1 is in the lock, and neither the recipe nor another package needs it"],
        ),
    ],
)
def test_wheels_of_something_else(
    asked: Sequence[str], parts: dict[str, Distribution], expected: Sequence[str]
) -> None:
    assert faults(asked, parts) == [*expected]


def test_constraints_hold_for_what_is_there_alone() -> None:
    parts = {"alpha": part("1")}
    assert faults(["alpha"], parts, limits=["alpha<2", "beta<1"]) == []
    assert faults(["alpha"], parts, limits=["alpha>2"]) == ["a constraint needs `alpha>2`, the lock has alpha 1"]
    assert faults(["alpha"], parts, limits=["alpha>2; python_version < '3'"]) == []


def test_rows_without_end_are_no_work() -> None:
    deep = "beta; " + "(" * 2_000 + "os_name == 'x'" + ")" * 2_000
    assert faults(["alpha"], {"alpha": part("1", deep, "c" + ",".join("!=1" for _ in range(200_000)))}) == []


def extras(row: int) -> str:
    return ",".join(f"x{row}-{number}" for number in range(100))


def test_extras_are_followed_once_each() -> None:
    """Every extra brings all rows again: a few kilobytes took gigabytes."""
    parts = {"alpha": part("1", *(f"alpha[{extras(row)}]" for row in range(30)))}
    tracemalloc.start()
    try:
        assert faults(["alpha"], parts) == []
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("asked", "rows"),
    [
        ("alpha", ["beta"] * (MOST_ROWS + 1)),
        ("alpha", [f"alpha[{extras(row)}]" for row in range(MOST_ROWS)]),
        ("alpha[e0]", [f"alpha[e{number + 1}]; extra == 'e{number}'" for number in range(MOST_ROWS)]),
        ("alpha", ["beta; " + " or ".join(f"os_name=='{number}'" for number in range(110))] * MOST_ROWS),
    ],
    ids=["rows", "extras", "a chain of extras", "markers"],
)
def test_needs_without_end_are_a_fault(asked: str, rows: Sequence[str]) -> None:
    told = ["what alpha needs takes too long to follow: no package has so many rows and extras"]
    assert faults([asked], {"alpha": part("1", *rows), "beta": part("1")}) == told


def test_extras_of_a_large_package_are_followed() -> None:
    """As many rows and extras as the largest package that was seen (Apache Airflow 2) has."""
    rows = [f"beta{number}; extra == 'e{number % 150}'" for number in range(900)]
    every = ",".join(f"e{number}" for number in range(75))
    more = ",".join(f"e{number}" for number in range(75, 150))
    parts = {"alpha": part("1", *rows, f"alpha[{every}]; extra == 'all'", f"alpha[{more}]; extra == 'all'")}
    parts |= {f"beta{number}": part("1") for number in range(900)}
    assert faults(["alpha[all]"], parts) == []


def test_kernel_of_this_host_decides_nothing() -> None:
    """The same lock answers on every host: uv leaves the kernel open as well."""
    rows = ["beta; platform_release >= '1'", "beta; platform_version != ''"]
    assert faults(["alpha"], {"alpha": part("1", *rows)}) == []


def kinds(versions: Mapping[str, str]) -> set[str]:
    return {name[0] for name in versions}


def test_requirement_that_brings_every_kind() -> None:
    parts = {"alpha": part("1", "beta"), "beta": part("1"), "gamma": part("1", "alpha")}
    wanted = Question(
        requirements=("beta", "alpha", "gamma", "gamma; python_version < '3'"), indexes=("pypi",), platform=PLATFORM
    )
    assert asks_for_all(wanted, parts, "3.11.8", kinds) == "gamma"
    assert asks_for_all(wanted, {**parts, "delta": part("1")}, "3.11.8", kinds) == ""


def test_many_requirements_that_need_everything_have_one_bound() -> None:
    """Each had its own: a lock kept every command waiting for minutes."""
    names = [f"a{number}" for number in range(200)]
    parts = {name: part("1", *names) for name in names} | {"b": part("1")}
    wanted = Question(requirements=tuple(names) * 50, indexes=("pypi",), platform=PLATFORM)
    looked: list[int] = []

    def counted(versions: Mapping[str, str]) -> set[str]:
        looked.append(len(versions))
        return kinds(versions)

    assert asks_for_all(wanted, parts, "3.11.8", counted) == ""
    assert len(looked) < 50
