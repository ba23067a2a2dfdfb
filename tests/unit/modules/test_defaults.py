"""The entry that a load without a version gives."""

from __future__ import annotations

from envmgr.modules.spec import default_entries


def test_default_is_the_one_that_says_so_else_the_highest_that_is_not_hidden() -> None:
    rows = [
        *(("a", version, False, version == "11") for version in ("9", "10", "11")),
        *(("b", version, version == "1", False) for version in ("1", "2")),
        ("c", "1", False, True),
        ("d", "1", False, False),
    ]
    assert default_entries(rows) == {"a": "a/10", "b": "b/1", "d": "d/1"}
