"""A plugin of pytest: which tests of whole commands `make test-cluster` leaves to `make test-long`.

Of each file of `TIERS`, two stay: the first case of the first and of the last test. So do those that are marked `always`. All others are
marked `long`. A test that is named (`pytest FILE::TEST`) runs with all of its cases.
"""

from __future__ import annotations

import pytest

TIERS = ("tests/sandbox/", "tests/cluster/")
# They are the short tier of whole commands, and run as they are: FIRST_TESTS of the Makefile.
_WHOLE = ("tests/sandbox/test_every_verb.py", "tests/cluster/audit/test_drift.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if any("::" in arg for arg in config.args):
        config.option.markexpr = config.option.markexpr.replace(" and not long", "")
        return
    files: dict[str, dict[str, list[pytest.Item]]] = {}
    for item in items:
        file, _, test = item.nodeid.partition("::")
        if file.startswith(TIERS) and file not in _WHOLE:
            files.setdefault(file, {}).setdefault(test.partition("[")[0], []).append(item)
    for tests in files.values():
        first_cases = [cases[0] for cases in tests.values()]
        for item in (each for cases in tests.values() for each in cases):
            if item not in (first_cases[0], first_cases[-1]) and item.get_closest_marker("always") is None:
                item.add_marker("long")
