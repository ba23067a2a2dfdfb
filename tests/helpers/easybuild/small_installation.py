"""A small EasyBuild, as pip or uv would install it: its folders and lists of files, and nothing that runs."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path

from envmgr.backends.easybuild.installation import Places

FRAMEWORK, EASYBLOCKS = b"# the framework's\n", b"# the easyblocks'\n"  # easybuild/__init__.py, as each brings it

PACKAGES = {"easybuild/main.py": b"print('eb')\n", "easybuild/easyblocks/generic/bundle.py": b"class Bundle: ...\n"}
DATA = {
    "easybuild/easyconfigs/z/zlib/zlib-1.3.1.eb": b"name = 'zlib'\n",
    "easybuild/easyconfigs/z/zlib/zlib-1.3.1_fix.patch": b"--- a\n",
    "easybuild/scripts/rpath_args.py": b"print('args')\n",
}


def write_easybuild(
    home: Path, *, version: str = "5.4.1", last: bytes = FRAMEWORK, change: Mapping[str, bytes] | None = None
) -> Places:
    """Install it in `home`; `last` is the package that was installed last, `change` are files that differ."""
    places = Places(home / "lib/python3.11/site-packages", home)
    for root, files in ((places.packages, PACKAGES), (home, DATA)):
        for name, content in files.items():
            _write(root / name, content)
    _write(places.packages / "easybuild/__init__.py", last)
    for name, content in (change or {}).items():
        _write((home if "easyconfigs" in name else places.packages) / name, content)
    for part, content in (("framework", FRAMEWORK), ("easyblocks", EASYBLOCKS), ("easyconfigs", b"")):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        line = f"easybuild/__init__.py,sha256={digest},{len(content)}\n" if content else "easybuild/x.eb,,\n"
        _write(places.packages / f"easybuild_{part}-{version}.dist-info/RECORD", line.encode())
    return places


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
