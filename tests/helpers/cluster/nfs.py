"""The NFS client of the test cluster: nfsfuse.c, compiled at first use (a kernel without NFS is enough)."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
from pathlib import Path

from tests.helpers.places import CACHE as _CACHE

_SOURCE = Path(__file__).with_name("nfsfuse.c")


def nfsfuse() -> Path:
    """The program, from the cache when this source was compiled before."""
    program = _CACHE / f"nfsfuse-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:8]}"
    if not program.exists():
        _CACHE.mkdir(exist_ok=True)
        flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "fuse3", "libnfs"], check=True, capture_output=True, text=True
        )
        part = program.with_suffix(f".{os.getpid()}")  # several workers may compile at once
        subprocess.run(["cc", "-O1", "-w", "-o", part, _SOURCE, *shlex.split(flags.stdout)], check=True)
        part.rename(program)
    return program
