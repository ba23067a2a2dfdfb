"""Marks of tests that CI leaves out for their time: `make soak SOAK=kept_out` runs them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest
from _pytest.mark.structures import ParameterSet

LATER = (pytest.mark.slow, pytest.mark.soak)


def in_ci(names: Iterable[str], here: Collection[str]) -> list[ParameterSet]:
    """Parameters of which CI runs those of `here`."""
    return [pytest.param(name, id=name, marks=() if name in here else LATER) for name in names]
