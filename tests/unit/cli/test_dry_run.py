"""What writes anything can be asked to write nothing: every verb that changes something, and every option with a file."""

from __future__ import annotations

import importlib
import re

import pytest

from envmgr.cli.app import VERBS as TABLE
from tests.helpers.verbs import VERBS

WRITES = {"output", "report", "save_baseline", "apply", "folder"}


@pytest.mark.parametrize("verb", VERBS)
def test_verb_that_writes_has_a_dry_run(verb: str) -> None:
    names = {each.name for each in VERBS[verb].params}
    module, _, function = TABLE[verb].function.partition(":")
    needs = vars(getattr(importlib.import_module(f"envmgr.verbs.{module}"), function)).get("needs")
    if names & WRITES or needs == "write":
        assert "dry_run" in names, f"{verb}: {sorted(names & WRITES)}"


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_that_takes_a_file_to_write_is_known_here(verb: str) -> None:
    named = [each for each in VERBS[verb].params if each.metavar in {"FILE", "DIR"}]
    files = {each.name for each in named if re.match(r"(?i)write", getattr(each, "help", "") or "")}
    assert files <= WRITES
