"""`envmgr verify` of one install against `sha256sum` of the same files: CPU time of both, whole processes.

The install is made of this Python's own environment, copied: many small files and some large ones, as installs have them.
The other side reads and hashes only: it compares nothing, and looks at no mode, owner or link.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Claim, Ratio, Took, alternate, took
from benchmarks.site import ENTRY, envmgr, make_site
from envmgr.publish.records import RECORD
from envmgr.store.manifest import InstallFacts, make_manifest, write_manifest
from envmgr.store.prefix import recorded_digest
from envmgr.store.tree import make_read_only
from envmgr.system.files import remove_tree, sha256_file


def claims(channel: str, runs: int) -> list[Claim]:
    root = Path(tempfile.mkdtemp(prefix="envmgr-bench-"))
    try:
        env = make_site(root, channel)
        took(envmgr("lock", ENTRY), env=env)
        took(envmgr("build", ENTRY), env=env)
        install = next(path for path in (root / "prefix/store/bench").iterdir() if path.is_dir())
        count = _grow(install)
        _record(root / "prefix", install)
        listed = root / "files"
        with listed.open("wb") as file:
            subprocess.run(["find", install, "-type", "f", "-print0"], stdout=file, check=True)

        def ours() -> Took:
            return took(envmgr("verify"), env=env)

        def theirs() -> Took:
            return took(["xargs", "-0", "-a", listed, "sha256sum"], env={**os.environ, "LC_ALL": "C"})

        pairs = alternate(ours, theirs, runs)
    finally:
        remove_tree(root)
    return [CpuRatio("verify / sha256sum of the same files", pairs, 1.5, note=f"{count} files; by CPU time")]


class CpuRatio(Ratio):
    """Held to its CPU time: what other processes of the machine read meanwhile slows both sides by chance."""

    def __init__(self, *args: object, **named: object) -> None:
        super().__init__(*args, **named)  # type: ignore[arg-type]
        self.holds = self._cpu is not None and self._cpu <= self._limit


def _grow(install: Path) -> int:
    """More files, of this environment, and the manifest that fits; returns how many there are."""
    install.chmod(0o755)
    shutil.copytree(Path(sys.prefix), install / "more", symlinks=True, ignore_dangling_symlinks=True)
    make_read_only(install)
    file = install.with_name(f"{install.name}.manifest.json")
    manifest = make_manifest(install, recorded_digest(file), InstallFacts(), {}, mask=0o022, workers=2)
    write_manifest(file, manifest)
    return sum(path.kind == "file" for path in manifest.paths)


def _record(prefix: Path, install: Path) -> None:
    """The published record gets the sha256 of the new manifest; the history's line, that of the record."""
    record = prefix / "current" / RECORD
    content = json.loads(record.read_text())
    path = str(install.relative_to(prefix))
    content["manifests"][path] = sha256_file(install.with_name(f"{install.name}.manifest.json"))
    for each, mode in ((record.parent, 0o755), (record, 0o644)):
        each.chmod(mode)
    record.write_text(json.dumps(content))
    for each, mode in ((record, 0o444), (record.parent, 0o555)):
        each.chmod(mode)
    history = prefix / "var/history.jsonl"
    line = json.loads(history.read_text().splitlines()[-1]) | {"record": sha256_file(record)}
    history.write_text(json.dumps(line) + "\n")
