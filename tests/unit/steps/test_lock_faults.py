"""What a library raises over one entry is a failure of that entry."""

from __future__ import annotations

import pytest

from envmgr.catalog.lock_checks import Judged, LockFault, lock_contradicts
from envmgr.catalog.names import parse_entry
from envmgr.errors import EnvmgrError, InputError
from envmgr.steps.lock_checks import Losses, entry_faults, reading_entry


def test_exception_of_a_library_is_an_error_of_its_entry() -> None:
    with pytest.raises(EnvmgrError) as caught, reading_entry("aaa/1.0"):
        int("9" * 5_000)
    error = caught.value
    assert (error.reference, error.exit_code) == ("entry-unreadable", 3)
    assert error.message == "the recipe of aaa/1.0, its lock or a package of it cannot be read"
    assert error.context[0].startswith("ValueError: ")
    assert error.context[1].startswith(f"in {__name__}, line ")
    assert "`envmgr check aaa/1.0`" in error.hint
    assert isinstance(error.__cause__, ValueError)


@pytest.mark.parametrize("error", [InputError("x", "y"), OSError("z"), MemoryError()])
def test_what_has_its_own_words_is_not_reworded(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, reading_entry("aaa/1.0"):
        raise error
    assert caught.value is error


def test_build_that_may_go_on_does_so_beside_it() -> None:
    losses = Losses(allowed=True)
    with losses.of("aaa/1.0"), reading_entry("aaa/1.0"):
        raise RecursionError
    assert {name: error.reference for name, error in losses.failed.items()} == {"aaa/1.0": "entry-unreadable"}


def test_faults_of_a_lock_without_end_are_told_in_part() -> None:
    many = tuple(LockFault("blas-variants", f"a needs b{number}") for number in range(50_000))
    found = entry_faults(parse_entry("aaa/1.0"), [(parse_entry("aaa/1.0"), Judged(many))])
    assert [fault.text for fault in found[-2:]] == ["a needs b19", "and 49980 more faults"]
    error = lock_contradicts("aaa/1.0", Judged(many))
    assert [error.context[0], *error.context[-2:]] == [
        "blas-variants: a needs b0",
        "blas-variants: a needs b19",
        "and 49980 more",
    ]
