"""Source archives for tests: the same files give the same bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path


def write_tar(path: Path, top: str, files: Mapping[str, str]) -> Path:
    """`path` as a .tar.gz of `files` (relative path -> text) below the folder `top`; what ends in .sh is executable."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, text in sorted(files.items()):
            member = tarfile.TarInfo(f"{top}/{name}")
            content = text.encode()
            member.size = len(content)
            member.mode = 0o755 if name.endswith((".sh", "configure")) else 0o644
            tar.addfile(member, io.BytesIO(content))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data.getvalue(), mtime=0))
    return path
