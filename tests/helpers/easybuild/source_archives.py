"""Source archives for tests: the same files give the same bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path


def write_tar(path: Path, top: str, files: Mapping[str, str]) -> Path:
    """`path` as a .tar.gz of `files` (relative path -> text) below the folder `top`; what ends in .sh is executable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tar_of(top, {name: text.encode() for name, text in files.items()}))
    return path


def tar_of(top: str, files: Mapping[str, bytes]) -> bytes:
    """The bytes of a .tar.gz; what is in bin is executable, too."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size = len(content)
            member.mode = 0o755 if name.endswith((".sh", "configure")) or name.startswith("bin/") else 0o644
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(data.getvalue(), mtime=0)
