"""Wheels are what requirements ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from envmgr.wheels.lock_checks import unmet_requirements

PLATFORM = "x86_64-manylinux_2_28"


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
