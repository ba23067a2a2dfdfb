"""What conda's packages bring in truth, against their names, before wheels are added."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.backends.conda.wheels_worker import Lacking, refuse_lacking
from tests.helpers.wheelhouse import Wheelhouse

REQUEST = {
    "pip": ["one"],
    "platform": "x86_64-manylinux_2_28",
    "promised": {"six": "six 1.17.0", "unused": "unused 1.0"},
}


def test_distribution_that_a_package_does_not_bring_is_told_where_something_needs_it(tmp_path: Path) -> None:
    wheels = [Wheelhouse(tmp_path).wheel("one", requires=["six>=1.10", "never; sys_platform == 'win32'"])]
    refuse_lacking(wheels, {"six": ("1.16.0", "six.egg-info")}, REQUEST, "3.11.7")
    for there, what, has in (
        ({}, "six", "which the lock lacks"),
        ({"six": ("1.9", "six")}, "it brings six 1.9", "the lock has six 1.9"),
    ):
        with pytest.raises(Lacking) as caught:
            refuse_lacking(wheels, there, REQUEST, "3.11.7")
        assert caught.value.details == {
            "what": what,
            "package": "six 1.17.0",
            "lines": [f"one 1.0 needs `six>=1.10`, {has}"],
        }
