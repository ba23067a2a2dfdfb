"""`make soak` hands its variables on to `python -m tests.soak`."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from tests.helpers.places import ROOT
from tests.soak.__main__ import known_campaigns, make_parser


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (("SOAK=drifts",), (["drifts"], 1, None, 1)),
        (("SOAK=drifts faults", "FIRST=70", "ROUNDS=90", "SEED=5"), (["drifts", "faults"], 70, 90, 5)),
    ],
)
def test_make_soak_prints_what_the_campaigns_parse(variables: tuple[str, ...], expected: tuple[object, ...]) -> None:
    done = subprocess.run(["make", "-n", "soak", *variables], cwd=ROOT, check=True, capture_output=True, text=True)
    (line,) = (line for line in done.stdout.splitlines() if " -m tests.soak " in line)
    options = make_parser(known_campaigns()).parse_args(shlex.split(line)[3:])
    assert (options.campaigns, options.first, options.rounds, options.seed) == expected
