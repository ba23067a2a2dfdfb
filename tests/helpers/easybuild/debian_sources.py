"""Real tarballs for tests that build by EasyBuild: the upstream sources inside Debian 12's source packages.

`sourcepath("zlib")` fetches what is missing into `tests/.cache/sources/<letter>/<Name>/`, where EasyBuild looks for it, and
returns the folder to name as its `sourcepath`. Whence comes from this machine's own apt settings; their files are only read.

    python -m tests.helpers.easybuild.debian_sources [NAME…]      # fetch (all) by hand
"""

from __future__ import annotations

import bz2
import fcntl
import gzip
import hashlib
import lzma
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.places import CACHE

_APT_HELPER = "/usr/lib/apt/apt-helper"
_TIMEOUT = 600  # seconds, for each apt command


@dataclass(frozen=True, slots=True)
class Source:
    """A tarball: the Debian source package and upstream version it is in, the file that the easyconfig asks for."""

    package: str
    version: str
    file: str
    sha256: str

    @property
    def path(self) -> Path:
        """As EasyBuild lays out its sourcepath: `b/bzip2/bzip2-1.0.8.tar.gz`."""
        name = self.file.rpartition("-")[0]
        software = {"mpich": "MPICH", "openmpi": "OpenMPI"}.get(name, name)
        return Path(software[0].lower(), software, self.file)


# Upstream's own bytes for bzip2 and Python. Debian repacked the others (zlib also lost files), some into another
# compression than upstream's, which is undone here: such a file is the same wherever it is made.
SOURCES = {
    "bzip2": Source(
        "bzip2", "1.0.8", "bzip2-1.0.8.tar.gz", "ab5a03176ee106d3f0fa90e381da478ddae405918153cca248e682cd0c4a2269"
    ),
    "zlib": Source(
        "zlib", "1.2.13.dfsg", "zlib-1.2.13.tar.gz", "ae154c1d1f92bf5ee09d1800007ea526bd976d0afc98f39788e772507aeffb0f"
    ),
    "Python": Source(
        "python3.11", "3.11.2", "Python-3.11.2.tgz", "2411c74bda5bbcfcddaf4531f66d1adc73f247f529aee981b029513aefdbf849"
    ),
    "MPICH": Source(
        "mpich", "4.0.2", "mpich-4.0.2.tar.gz", "936a22d1eec707e20cf6ba2b5008f2191a523ff4e6c80029c815e4beff7b2462"
    ),
    "OpenMPI": Source(
        "openmpi", "4.1.4", "openmpi-4.1.4.tar.bz2", "15bd46e9e9827f2463e76eb63cf069275675b6b1717e3e002428f7f643c92a54"
    ),
}


class SourceError(Exception):
    """No source of this machine has the tarball; the message says why."""


def sourcepath(*names: str) -> Path:
    """Make sure that the tarballs of `names` (keys of SOURCES; all by default) are there; EasyBuild's `sourcepath`.

    Raises:
        SourceError: no apt, no network, or this Debian has another version.
    """
    folder = CACHE / "sources"
    folder.mkdir(parents=True, exist_ok=True)
    with (CACHE / "sources.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = [s for n in names or SOURCES if not (folder / (s := SOURCES[n]).path).exists()]
        if missing:
            _fetch(missing, folder)
    return folder


def _fetch(sources: Collection[Source], folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="envmgr-sources-") as there:
        state = Path(there)
        environ = _private_apt(state)
        for source in sources:
            content = _recompressed(_download(source, state, environ), source.file)
            if (found := hashlib.sha256(content).hexdigest()) != source.sha256:
                raise SourceError(f"{source.path.name}: sha256 is {found}, {source.sha256} is expected")
            target = folder / source.path
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f".{target.name}.{os.getpid()}")
            partial.write_bytes(content)
            partial.chmod(0o644)
            partial.rename(target)


def _private_apt(state: Path) -> dict[str, str]:
    """An apt whose lists and caches lie in `state` and that knows the source packages of this machine's own repositories."""
    for part in ("lists/partial", "cache/archives/partial"):
        (state / part).mkdir(parents=True)
    (state / "status").touch()
    shown = _run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Identifier: Packages"])
    lines = sorted({line for line in shown.splitlines() if len(line.split()) == 3})
    if not lines:
        raise SourceError("apt knows no repository here (`apt-get indextargets` shows none): apt-get update?")
    (state / "sources.list").write_text("".join(f"deb-src {line}\n" for line in lines))
    (state / "apt.conf").write_text(
        f'Dir::State "{state}";\nDir::State::lists "{state}/lists";\nDir::State::status "{state}/status";\n'
        f'Dir::Cache "{state}/cache";\nDir::Etc::sourcelist "{state}/sources.list";\nDir::Etc::sourceparts "-";\n'
        'APT::Sandbox::User "root";\nAcquire::Languages "none";\nAcquire::Retries "2";\n'
    )
    environ = {**os.environ, "APT_CONFIG": str(state / "apt.conf"), "LC_ALL": "C.UTF-8"}
    _run(["apt-get", "-qq", "-o", "APT::Update::Error-Mode=any", "update"], environ)
    return environ


def _download(source: Source, state: Path, environ: dict[str, str]) -> Path:
    """The .orig tarball alone, checked by apt against the signed index; from the first repository that has it."""
    failure = None
    for uri, file, checksum in _offered(source.package, state, environ):
        if file.startswith(f"{source.package}_{source.version}.orig."):
            try:
                _run([_APT_HELPER, "download-file", uri, str(state / file), checksum], environ)
            except SourceError as error:  # a mirror may lack what its index names
                failure = error
            else:
                return state / file
    raise failure or SourceError(f"this machine's Debian has no {source.package} {source.version}: Debian 12 has it")


def _offered(package: str, state: Path, environ: dict[str, str]) -> list[tuple[str, str, str]]:
    """(URI, file, checksum) of a source package's upstream tarballs, in every release that has it."""
    releases = sorted({line.split()[2] for line in (state / "sources.list").read_text().splitlines()}, key=len)
    found = []
    for release in releases:
        command = ["apt-get", "-qq", "source", "--print-uris", "--only-source", f"{package}/{release}"]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
        found += re.findall(r"^'([^']+)' (\S+\.orig\.tar\.[a-z0-9]+) \d+ (\S+:[0-9a-f]+)$", done.stdout, re.MULTILINE)
    return list(dict.fromkeys(found))


def _run(command: list[str], environ: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except FileNotFoundError:
        raise SourceError(f"no {command[0]} here: sources for these tests come from Debian's source packages") from None
    except subprocess.TimeoutExpired:
        raise SourceError(f"`{' '.join(command)}`: no end after {_TIMEOUT} s") from None
    if done.returncode:
        raise SourceError(f"`{' '.join(command)}` failed:\n{done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _recompressed(tarball: Path, file: str) -> bytes:
    """The tarball's bytes, in the compression that `file` names."""
    is_gzip, is_bz2 = file.endswith(("gz", "tgz")), file.endswith("bz2")
    content = tarball.read_bytes()
    if (is_gzip and content.startswith(b"\x1f\x8b")) or (is_bz2 and content.startswith(b"BZh")):
        return content
    opened = {".xz": lzma.decompress, ".bz2": bz2.decompress, ".gz": gzip.decompress}[tarball.suffix](content)
    if is_bz2:
        return bz2.compress(opened)
    # GNU gzip, not Python's: zlib and its replacements compress the same bytes differently.
    return subprocess.run(["gzip", "-n9"], input=opened, capture_output=True, check=True).stdout


if __name__ == "__main__":
    try:
        print(sourcepath(*sys.argv[1:]))
    except SourceError as error:
        sys.exit(f"{error}")
