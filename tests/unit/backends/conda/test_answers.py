"""A conda lock answers its recipe: every spec has its package, no need is open, and nothing is there that nothing needs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from envmgr.backends.conda.judging import faults_of
from envmgr.backends.conda.lock import CondaLock, LockedPackage
from envmgr.backends.conda.models import CondaInput
from envmgr.wheels.locked import AddedWheels, LockedWheel


def package(text: str, *depends: str, constrains: Sequence[str] = ()) -> LockedPackage:
    name, version, build = text.split()
    return LockedPackage(
        name=name,
        version=version,
        build=build,
        build_number=0,
        subdir="linux-64",
        url="",
        md5="",
        sha256="",
        depends=depends,
        constrains=tuple(constrains),
    )


def wheel(text: str, *requires: str, unknown: bool = False) -> LockedWheel:
    name, version = text.split()
    return LockedWheel(
        name=name,
        version=version,
        file=f"{name}-{version}-py3-none-any.whl",
        sha256="0" * 64,
        index="pypi",
        requires=None if unknown else requires,
    )


def faults(
    specs: Sequence[str],
    *packages: LockedPackage,
    pip: Sequence[str] = (),
    wheels: Sequence[LockedWheel] = (),
    **virtual: str,
) -> list[str]:
    platform = "x86_64-manylinux_2_28"
    added = AddedWheels(python="3.11.7", platform=platform, uv="", wheels=tuple(wheels)) if wheels else None
    lock = CondaLock("linux-64", "", packages, (), {}, "", added)
    given = CondaInput(channels=("c",), specs=tuple(specs), virtual_packages=virtual, pip=tuple(pip))
    return [fault.text for fault in faults_of(lock, given)]


ALPHA, BETA = package("alpha 1.0 h1_0", "beta >=2,<3"), package("beta 2.1 h1_0")


@pytest.mark.parametrize(
    "specs",
    [
        ["alpha"],
        ["alpha 1.*"],
        ["alpha >=1,<2"],
        ["alpha 1.0 h1_0"],
        ["alpha * h*"],
        ["Alpha", "beta 2.*"],
        ["alpha =1", "__glibc >=2.17"],
    ],
)
def test_lock_that_answers(specs: Sequence[str]) -> None:
    assert faults(specs, ALPHA, BETA) == []


@pytest.mark.parametrize(
    ("specs", "packages", "expected"),
    [
        (["alpha 2.*"], [ALPHA, BETA], ["the recipe needs `alpha 2.*`, the lock has alpha 1.0 h1_0"]),
        (["alpha * mpi_*"], [ALPHA, BETA], ["the recipe needs `alpha * mpi_*`, the lock has alpha 1.0 h1_0"]),
        (["alpha", "gamma"], [ALPHA, BETA], ["the recipe needs `gamma`, which the lock lacks"]),
        (["__glibc >=2.30"], [], ["the recipe needs `__glibc >=2.30`, the lock has __glibc 2.28"]),
        (
            ["alpha"],
            [ALPHA, BETA, package("evil 6.6 h1_0")],
            ["evil 6.6 h1_0 is in the lock, and neither the recipe nor another package needs it"],
        ),
        (
            ["alpha"],
            [ALPHA, BETA, package("evil 6.6 h1_0", "worse"), package("worse 1 h1_0", "evil")],
            [
                "evil 6.6 h1_0 is in the lock, and neither the recipe nor another package needs it",
                "worse 1 h1_0 is in the lock, and neither the recipe nor another package needs it",
            ],
        ),
        (
            ["alpha"],
            [ALPHA, package("beta 3.0 h1_0")],
            ["alpha 1.0 h1_0 needs `beta >=2,<3`, the lock has beta 3.0 h1_0"],
        ),
        (
            ["alpha", "beta"],
            [package("alpha 1 h1_0", constrains=["beta <2"]), BETA],
            ["alpha 1 h1_0 needs `beta <2`, the lock has beta 2.1 h1_0"],
        ),
        (
            ["a"],
            [package("a 1 h1_0", "__cuda >=12")],
            ["a 1 h1_0 needs `__cuda >=12`, and the recipe declares no `__cuda`"],
        ),
        (
            ["a"],
            [package("a 1 h1_0", "__glibc >=2.34")],
            ["a 1 h1_0 needs `__glibc >=2.34`, the lock has __glibc 2.28"],
        ),
    ],
)
def test_lock_of_other_packages(
    specs: Sequence[str], packages: Sequence[LockedPackage], expected: Sequence[str]
) -> None:
    assert faults(specs, *packages) == [*expected]


def test_virtual_packages_that_are_declared_count() -> None:
    built = package("a 1 h1_0", "__archspec 1 x86_64_v3", "__cuda >=12", "__unix", constrains=["__win >=1"])
    assert faults(["a"], built, __archspec="1 x86_64_v3", __cuda="12.9") == []


def test_what_conda_gives_every_python_is_needed() -> None:
    pip = package("pip 25 h1_0", "setuptools")
    assert faults(["python"], package("python 3.11.7 h1_0"), pip, package("setuptools 80 h1_0")) == []


PYTHON = package("python 3.11.7 h1_0_cpython")
NUMPY = package("numpy 1.26.4 py311_0", "python >=3.11,<3.12")


def test_wheels_beside_conda_answer_the_rows_of_pip() -> None:
    given = {"pip": ["top[x]>=1"], "wheels": [wheel("dep 1"), wheel("top 1.5", "numpy<2", "dep; extra == 'x'")]}
    assert faults(["numpy"], PYTHON, NUMPY, **given) == []


def test_wheels_beside_conda_that_nothing_asks_for() -> None:
    given = {"pip": ["top>=2"], "wheels": [wheel("evil 6.6"), wheel("top 1.5", "numpy>=2", "gone")]}
    assert faults(["numpy"], PYTHON, NUMPY, **given) == [
        "the recipe needs `top>=2`, the lock has top 1.5",
        "top 1.5 needs `numpy>=2`, the lock has numpy 1.26.4",
        "top 1.5 needs `gone`, which the lock lacks",
        "evil 6.6 is in the lock, and neither the recipe nor another package needs it",
    ]


def test_lock_without_the_wheels_that_the_recipe_asks_for() -> None:
    assert faults(["numpy"], PYTHON, NUMPY, pip=["top"]) == ["the recipe needs `top`, which the lock lacks"]
