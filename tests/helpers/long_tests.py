"""A plugin of pytest: which tests of whole commands `make test-cluster` leaves to `make test-long`.

Marked `long` are those whose file or function says so, and all but two cases of a function with more: the first and the last one.
A test that is named by its function (`pytest FILE::TEST`) has all of its cases, and runs if it is marked.
"""

from __future__ import annotations

import pytest

_CASES = 2
_TIERS = ("tests/sandbox/", "tests/cluster/")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if any("::" in arg for arg in config.args):
        config.option.markexpr = config.option.markexpr.replace(" and not long", "")
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.nodeid.startswith(_TIERS):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for same in cases.values():
        for item in same[1 : 1 - _CASES]:
            item.add_marker("long")
