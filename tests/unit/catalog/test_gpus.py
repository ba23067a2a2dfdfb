from __future__ import annotations

import pytest

from envmgr.catalog.gpus import driver_faults, minimum_driver


@pytest.mark.parametrize(
    ("cuda", "driver"),
    [("11.8", "450.80.02"), ("11", "450.80.02"), ("12.9", "525.60.13"), ("12.4.1", "525.60.13"), ("13.0", "580.65.06")],
)
def test_minimum_driver_is_that_of_the_major_version(cuda: str, driver: str) -> None:
    assert minimum_driver(cuda) == driver


@pytest.mark.parametrize("cuda", ["10.2", "14.0", "1.1", "", "cpu"])
def test_minimum_driver_is_none_where_the_table_has_no_row(cuda: str) -> None:
    assert minimum_driver(cuda) is None


@pytest.mark.parametrize(
    ("cuda", "required", "enough"),
    [
        ("11.8", "450.80.02", True),
        ("11.8", "99.5", False),  # later than 450 as text
        ("12.4", "1000.1", True),  # earlier than 525 as text
        ("11.8", "450.100.1", True),
        ("11.8", "450.9.99", False),
        ("12.9", "525.60.2", False),  # 13 is more than 2
        ("12.9", "525.60", False),
        ("12.9", "525.105", True),
        ("14.0", "1.0", True),  # the table does not know better
    ],
)
def test_drivers_are_compared_number_by_number(cuda: str, required: str, *, enough: bool) -> None:
    told = f"requires.nvidia_driver: CUDA {cuda} needs >= {minimum_driver(cuda)}, the recipe says {required}"
    assert driver_faults(cuda, required) == ([] if enough else [told])


def test_recipe_that_says_nothing_of_the_driver_is_told_what_its_lock_needs() -> None:
    what = "requires.nvidia_driver: the lock has CUDA {}, which needs a driver >= {}"
    assert driver_faults("12.9", None) == [what.format("12.9", "525.60.13")]
    assert driver_faults("14.0", None) == [what.format("14.0", "(see NVIDIA)")]
