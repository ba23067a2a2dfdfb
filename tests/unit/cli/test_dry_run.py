"""What writes anything can be asked to write nothing: every verb that changes something, and every option with a file."""

from __future__ import annotations

import inspect
import re

import pytest

from tests.helpers.verbs import VERBS

ONLY_RUNS = {"test"}  # becomes the build user so that an entry's commands do not run as root
WRITES = {"output", "report", "save_baseline", "apply"}


def source(verb: str) -> str:
    return inspect.getsource(inspect.unwrap(VERBS[verb].callback))


@pytest.mark.parametrize("verb", VERBS)
def test_verb_that_writes_has_a_dry_run(verb: str) -> None:
    names = {each.name for each in VERBS[verb].params}
    writes = bool(names & WRITES) or ("writes_prefix=" in source(verb) and verb not in ONLY_RUNS)
    if writes:
        assert "dry_run" in names, f"{verb}: {sorted(names & WRITES)}"


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_that_takes_a_file_to_write_is_known_here(verb: str) -> None:
    named = [each for each in VERBS[verb].params if each.metavar in {"FILE", "DIR"}]
    files = {each.name for each in named if re.match(r"(?i)write", getattr(each, "help", "") or "")}
    assert files <= WRITES
