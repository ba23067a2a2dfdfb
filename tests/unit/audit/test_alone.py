"""Hints on a cluster where envmgr published nothing: they name what the cluster has, not what envmgr would have put there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from envmgr.audit.checks import all_checks
from envmgr.audit.model import Check, standing_alone
from tests.helpers.evidence import OURS

CHECKS = standing_alone(all_checks())

# What checks say of a published generation only; no row of another name may speak of one.
PUBLISHED = {"mount": {"user_writes"}, "resolution": {"shadowed"}}


def hints(check: Check) -> Iterator[tuple[str, str]]:
    table = check.table
    for name, row in {**table.node, **table.prefix, **table.context, **table.login, **table.rows}.items():
        yield name, f"{row.hint}"
    yield from table.words.items()


@pytest.mark.parametrize("name", CHECKS)
def test_tables_name_nothing_of_envmgrs_but_where_something_is_published(name: str) -> None:
    assert {row for row, hint in hints(CHECKS[name]) if OURS.search(hint)} == PUBLISHED.get(name, set())
