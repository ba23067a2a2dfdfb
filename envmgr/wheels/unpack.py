"""Wheels as files: what they promise to install, checked before any is unpacked; and unpacking, by PyPA's `installer`.

Source: packaging.python.org, "Binary distribution format", "Recording installed projects", "Installation schemes".
"""

from __future__ import annotations

import base64
import csv
import io
import posixpath
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from envmgr.system.worker import emit
from envmgr.wording import one_line

_LARGEST = 64 << 20  # bytes of a RECORD
_PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_OF_PYTHON = re.compile(
    r"(bin/)?(pyvenv\.cfg|pybuilddir\.txt)|bin/python(3(\.[0-9]+)?)?|lib(64)?/(python[0-9]+\.zip|libpython[^/]*)"
    r"|lib64/python3.*"
)


class BadWheel(Exception):  # noqa: N818 - the name of what is wrong
    """A file that is no wheel, or a wheel that says what it cannot."""


class Overlap(Exception):  # noqa: N818 - the name of what is wrong
    """Two wheels have one path with different content. `details` has `path`, `first` and `second`."""

    def __init__(self, path: str, first: str, second: str) -> None:
        super().__init__(f"{path} is in {first} and in {second}, with different content")
        self.details = {"path": path, "first": first, "second": second}


class Ended(Exception):  # noqa: N818 - the name of what happened
    """A process that unpacks was killed."""


@dataclass(frozen=True, slots=True)
class _Promise:
    """A file of a wheel.

    `sha256` is empty if RECORD has none; `made` for scripts, whose first line is written at installation.
    """

    path: str
    sha256: str
    made: bool


@dataclass(frozen=True, slots=True)
class Promised:
    """All that wheels will install. `files` maps a path to its sha256, for files that are installed as they are."""

    files: dict[str, str]
    folders: tuple[str, ...]
    paths: frozenset[str]


def promised(wheels: Iterable[Path], minor: str) -> Promised:
    """Return what the wheels will install for the Python `minor`.

    Raises:
        Overlap; BadWheel.
    """
    owners: dict[str, tuple[str, _Promise]] = {}
    for wheel in wheels:
        for each in _read(wheel, minor):
            name, other = owners.setdefault(each.path, (wheel.name, each))
            # Without a sum, nothing shows that two files have the same content.
            if name != wheel.name and (other.sha256 != each.sha256 or not each.sha256):
                raise Overlap(each.path, name, wheel.name)
    files = {path: each.sha256 for path, (_, each) in owners.items() if each.sha256 and not each.made}
    return Promised(files, tuple(sorted({path.rpartition("/")[0] for path in owners})), frozenset(owners))


@contextmanager
def as_bad_wheel(wheel: Path) -> Iterator[None]:
    """Raise BadWheel for any error of the libraries that read wheels: they have no error of their own for a bad one."""
    try:
        yield
    except (OSError, MemoryError, BadWheel):
        raise
    except Exception as error:  # noqa: BLE001 - KeyError, AssertionError, OverflowError, csv.Error and more
        raise BadWheel(f"{wheel.name} cannot be read: {type(error).__name__}: {error}".removesuffix(": ")) from None


def _read(wheel: Path, minor: str) -> Iterator[_Promise]:
    with as_bad_wheel(wheel), zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if not name.endswith("/")]
        records = [n for n in members if n.endswith(".dist-info/RECORD") and n.count("/") == 1]
        if len(records) != 1:
            raise BadWheel(f"{wheel.name} has {len(records)} files .dist-info/RECORD")
        rows = [row for row in csv.reader(io.StringIO(_text(archive, records[0]))) if row]
        scripts = records[0].replace("RECORD", "entry_points.txt")
        points = [*_entry_points(_text(archive, scripts))] if scripts in members else []
    sums = _agree(wheel.name, members, rows, records[0])
    data = f"{'-'.join(wheel.name.split('-')[:2])}.data"
    schemes = _schemes(wheel.name.partition("-")[0], minor)
    for path in members:
        if path != records[0] and "__pycache__" not in path.split("/")[:-1]:  # bytecode is left out, and compiled
            place = _place(path, data, schemes)
            if _is_pythons(place, minor):
                raise BadWheel(f"{wheel.name} has a file of the Python that it is installed into: {one_line(place)}")
            with as_bad_wheel(wheel):
                digest = _hex(sums.get(path, ""))
            yield _Promise(place, digest, path.startswith(f"{data}/scripts/"))
    for name, module, attribute in points:
        if not is_program(name, minor):
            raise BadWheel(f"{wheel.name} has a script with the name `{one_line(name)}`")
        # This text stands for a sum: two wheels may share a script only if it starts the same function.
        yield _Promise(f"bin/{name}", f"starts {module}:{attribute}", True)


def is_program(name: str, minor: str) -> bool:
    """Return whether a package may name a program so: by one word, and by no name of the Python `minor` itself."""
    return _PROGRAM.fullmatch(name) is not None and not _is_pythons(f"bin/{name}", minor)


def _text(archive: zipfile.ZipFile, name: str) -> str:
    # `read` puts the whole unpacked member into memory.
    if archive.getinfo(name).file_size > _LARGEST:
        raise ValueError(f"{name} has more than {_LARGEST} bytes")
    return archive.read(name).decode()


def _agree(wheel: str, members: Sequence[str], rows: Sequence[Sequence[str]], record: str) -> dict[str, str]:
    """Return path -> sum of a RECORD that has each file of the archive once, each by a path with one spelling.

    Only signatures are in no RECORD. Bytecode is left out, so its rows may be of missing files. Raise BadWheel.
    """
    signatures = {f"{record}.jws", f"{record}.p7s"}
    paths = [row[0] for row in rows]
    for path in (*members, *paths):
        if path.startswith("/") or ".." in path.split("/"):
            raise BadWheel(f"{wheel} has a path outside of its install: {one_line(path)}")
        # Two spellings of one path would pass the check for files that are there twice.
        if posixpath.normpath(path) != path or not path.isprintable() or "\\" in path:
            raise BadWheel(f"{wheel} has a path with more than one spelling: {one_line(path)}")
    if wrong := next((row for row in rows if len(row) != 3), None):
        raise BadWheel(f"{wheel} has an invalid row in RECORD: {one_line(','.join(wrong))}")
    for what, found in (("RECORD", paths), ("archive", members)):
        if len(found) != len({*found}):
            twice = next(path for path, count in Counter(found).items() if count > 1)
            raise BadWheel(f"{wheel} has a file twice in its {what}: {one_line(twice)}")
    if extra := sorted({*members} - {*paths} - signatures - {record}):
        more = f", and {len(extra) - 1} more" if len(extra) > 1 else ""
        raise BadWheel(f"{wheel} has files that its RECORD does not list: {one_line(extra[0])}{more}")
    if signed := sorted(signatures & {*paths}):
        raise BadWheel(f"{wheel} lists a signature of its RECORD in it: {signed[0]}")
    there = {*members}
    if absent := sorted(path for path in paths if path not in there and not path.endswith(".pyc") and path != record):
        raise BadWheel(f"{wheel} lists a file that it does not have: {one_line(absent[0])}")
    return {row[0]: row[1] for row in rows}


def _entry_points(text: str) -> Iterator[tuple[str, str, str]]:
    from installer.utils import parse_entrypoints

    try:
        yield from (row[:3] for row in parse_entrypoints(text))
    # `installer` has no other error for that.
    except AssertionError:
        raise ValueError("a script of its entry_points.txt names no function") from None


def _is_pythons(place: str, minor: str) -> bool:
    """Return True if the file would be, or lead, the Python itself: it would run before anything is tested.

    Source: CPython, Modules/getpath.py.
    """
    library = f"lib/python{minor}/"
    if place.startswith(library):
        return not place.startswith(f"{library}site-packages/")
    return bool(_OF_PYTHON.fullmatch(place))


def _schemes(name: str, minor: str) -> dict[str, str]:
    """Map the schemes of a wheel of the package `name` to folders of the install; empty is the install itself."""
    packages = f"lib/python{minor}/site-packages"
    headers = f"include/site/python{minor}/{name}"
    return {"purelib": packages, "platlib": packages, "scripts": "bin", "data": "", "headers": headers}


def _place(path: str, data: str, schemes: Mapping[str, str]) -> str:
    """Return where a file of a wheel lands in the install; `data` is the wheel's folder `<name>-<version>.data`."""
    head, _, rest = path.partition("/")
    if head != data:
        return f"{schemes['purelib']}/{path}"
    scheme, _, inner = rest.partition("/")
    folder = schemes.get(scheme)
    if folder is None or not inner:
        raise BadWheel(f"{one_line(path)}: there is no scheme `{one_line(scheme)}`")
    return f"{folder}/{inner}" if folder else inner


def _hex(text: str) -> str:
    """Return the sha256 of a row's `sha256=<urlsafe base64 without padding>`, as hex digits."""
    kind, _, value = text.partition("=")
    if kind != "sha256" or not value:
        return ""
    return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()


def inflate_by_isal() -> None:
    """Let the zipfile of this process, and of those that it forks, inflate and sum by ISA-L: two thirds of zlib's time.

    Source: CPython 3.11 to 3.14, zipfile, whose two names for zlib these are; python-isal, "Usage".
    """
    from isal import isal_zlib

    vars(zipfile).update(zlib=isal_zlib, crc32=isal_zlib.crc32)


def unpack_all(wheels: list[Path], root: Path, final: Path, minor: str, jobs: int) -> None:
    """Unpack the wheels, each in a process of its own, the biggest first. Runs inside a worker; event `linked`."""
    # A large wheel that begins last would keep one process busy after all others have ended.
    ordered = sorted(wheels, key=lambda path: path.stat().st_size, reverse=True)
    with ProcessPoolExecutor(max(1, min(jobs, len(ordered)))) as pool:
        under_way = {pool.submit(unpack, path, root, final, minor): path for path in ordered}
        try:
            for done in as_completed(under_way):
                done.result()
                emit("linked", name=under_way[done].name)
        except BrokenProcessPool:
            raise Ended("a process that unpacks wheels was killed") from None
        # Otherwise the end of the `with` block would wait for all wheels that have not begun.
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def unpack(wheel: Path, root: Path, final: Path, minor: str) -> None:
    """Unpack one wheel below `root` + `final`. Its console scripts start `final`'s Python."""
    from installer import install as install_wheel
    from installer.sources import WheelFile

    from envmgr.wheels.destination import Destination

    schemes = _schemes(wheel.name.partition("-")[0], minor)
    destination = Destination(
        {scheme: str(final / folder) for scheme, folder in schemes.items()},
        interpreter=str(final / "bin" / f"python{minor}"),
        script_kind="posix",
        destdir=str(root),
        overwrite_existing=True,  # what two wheels have alike; the rest was refused before
    )
    with as_bad_wheel(wheel), warnings.catch_warnings(), WheelFile.open(wheel) as source:
        warnings.simplefilter("ignore", RuntimeWarning)  # bytecode in a wheel: it is left out, and compiled
        rows = csv.reader(io.StringIO(source.read_dist_info("RECORD")))
        destination.sums = {row[0]: _hex(row[1]) for row in rows if row and not row[0].endswith(".dist-info/RECORD")}
        install_wheel(source, destination, {"INSTALLER": b"envmgr\n"})
