"""Programs that stand and wait: with what they hold, and nothing else, until their test lets them go."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

MAPPED = "import mmap, sys; f = open(sys.argv[1]); m = mmap.mmap(f.fileno(), 0, prot=1); f.close(); print(flush=True); input()"
"""For Python: it has the file of its argument mapped, and not open."""
OPENED = "import sys; f = open(sys.argv[1]); print(flush=True); input()"


@contextmanager
def standing(*argv: str, script: str = "", **env: str) -> Iterator[subprocess.Popen[str]]:
    """A program that is given `script` on its stdin, which stays open, and has said a line, by which it is ready."""
    env = {"PATH": "/usr/bin:/bin", "HOME": "/", **env}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(script)
            process.stdin.flush()
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()
