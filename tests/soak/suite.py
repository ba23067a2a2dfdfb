"""pytest as a part of a campaign."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import deque

from tests.helpers.places import ROOT

PARALLEL = ("-n", "auto", "--maxprocesses", "8", "--dist", "loadgroup")


def run_pytest(*argv: str, **environ: str) -> str:
    """Run pytest, its output as it comes to stdout; returns its closing words.

    Raises:
        AssertionError: tests failed or were skipped.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *argv],
        cwd=ROOT,
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    last: deque[str] = deque(maxlen=1)
    try:
        for line in process.stdout:
            sys.stdout.write(line)
            last.append(line)
        code = process.wait()
    finally:
        process.kill()
        process.wait()
    closing = re.sub(r"^=+ | =+$", "", last[0].strip()) if last else "nothing"
    assert code == 0, closing
    assert "skipped" not in closing, closing
    return closing
