"""A conda lock answers its recipe: each spec and each row of `pip` has its package."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from envmgr.backends.conda.lock import CondaLock, LockedPackage
from envmgr.backends.conda.lock_checks import facts_of
from envmgr.backends.conda.models import CondaInput
from envmgr.wheels.lockfile import LockedRow, LockedWheels


def package(text: str, *depends: str) -> LockedPackage:
    name, version, build = text.split()
    return LockedPackage(name=name, version=version, build=build, url="", md5="", sha256="", depends=depends)


def wheel(text: str) -> LockedRow:
    name, version = text.split()
    return LockedRow(name=name, version=version, sha256="0" * 64)


def faults(
    specs: Sequence[str], *packages: LockedPackage, pip: Sequence[str] = (), wheels: Sequence[LockedRow] = ()
) -> list[str]:
    platform = "x86_64-manylinux_2_28"
    added = LockedWheels(python="3.11.7", platform=platform, rows=tuple(wheels)) if wheels else None
    lock = CondaLock("linux-64", "", packages, (), added)
    given = CondaInput(channels=("c",), specs=tuple(specs), pip=tuple(pip))
    return [fault.text for fault in facts_of(lock, given).own]


ALPHA = package("alpha 1.0 h1_0")


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        (["Alpha 1.*", "alpha =1", "alpha * h*", "__glibc >=2.17"], []),
        (["alpha", "gamma >=2"], ["the recipe needs `gamma >=2`, which the lock lacks"]),
        (["alpha", "__cuda"], ["the recipe needs `__cuda`, which the lock lacks"]),
    ],
)
def test_each_spec_has_a_package(specs: Sequence[str], expected: Sequence[str]) -> None:
    assert faults(specs, ALPHA) == [*expected]


PYTHON = package("python 3.11.7 h1_0_cpython")
NUMPY = package("numpy 1.26.4 py311_0", "python >=3.11,<3.12")


def test_rows_of_pip_have_a_wheel_or_a_package_of_conda() -> None:
    given = ["top[x]>=1", "numpy<2", "top; python_version < '3'"]
    assert faults(["numpy"], PYTHON, NUMPY, pip=given, wheels=[wheel("top 1.5")]) == []
    assert faults(["numpy"], PYTHON, NUMPY, pip=["top>=2", "numpy>=2"], wheels=[wheel("top 1.5")]) == [
        "the recipe needs `top>=2`, the lock has top 1.5",
        "the recipe needs `numpy>=2`, the lock has numpy 1.26.4",
    ]
    assert faults(["numpy"], PYTHON, NUMPY, pip=["top"]) == ["the recipe needs `top`, which the lock lacks"]
