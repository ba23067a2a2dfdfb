"""Wheels as files: what they promise to install, checked before any is unpacked; and unpacking, by PyPA's `installer`.

Source: packaging.python.org, "Binary distribution format", "Recording installed projects", "Installation schemes".
"""

from __future__ import annotations

import base64
import posixpath
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envmgr.system.worker import emit
from envmgr.wording import one_line

if TYPE_CHECKING:
    from installer.records import Hash
    from installer.sources import WheelFile

_FEW = 4 << 20  # bytes of wheels: to start processes for them would take longer than to unpack them
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
        said = "; ".join(getattr(error, "issues", [])[:3]) or f"{type(error).__name__}: {error}".removesuffix(": ")
        raise BadWheel(f"{wheel.name} cannot be read: {one_line(said)}") from None


def _read(wheel: Path, minor: str) -> Iterator[_Promise]:
    from installer.sources import WheelFile
    from installer.utils import parse_entrypoints

    with as_bad_wheel(wheel), zipfile.ZipFile(wheel) as archive:
        source = WheelFile(archive)
        source.validate_record(validate_contents=False)  # the sums are compared when the install is hashed
        # Without padding in RECORD; more than it needs does no harm.
        sums = {path: base64.urlsafe_b64decode(f"{each.value}==").hex() for path, each in _sums(source).items()}
        points = []
        if "entry_points.txt" in source.dist_info_filenames:
            try:
                points = [row[:3] for row in parse_entrypoints(source.read_dist_info("entry_points.txt"))]
            except AssertionError:  # `installer` has no other error for it
                raise ValueError("a script of its entry_points.txt names no function") from None
        members = [name for name in archive.namelist() if not name.endswith("/")]
        record = f"{source.dist_info_dir}/RECORD"
    schemes = _schemes(wheel.name.partition("-")[0], minor)
    for path in members:
        # Two spellings of one path would pass the check for files that are there twice.
        if posixpath.normpath(path) != path or path.startswith(("/", "../")) or not path.isprintable() or "\\" in path:
            raise BadWheel(f"{wheel.name} has a path that is not plain: {one_line(path)}")
        if path != record and "__pycache__" not in path.split("/")[:-1]:  # bytecode is left out, and compiled
            place = _place(path, source.data_dir, schemes)
            if _is_pythons(place, minor):
                raise BadWheel(f"{wheel.name} has a file of the Python that it is installed into: {one_line(place)}")
            yield _Promise(place, sums.get(path, ""), path.startswith(f"{source.data_dir}/scripts/"))
    for name, module, attribute in points:
        if not is_program(name, minor):
            raise BadWheel(f"{wheel.name} has a script with the name `{one_line(name)}`")
        # This text stands for a sum: two wheels may share a script only if it starts the same function.
        yield _Promise(f"bin/{name}", f"starts {module}:{attribute}", True)


def _sums(source: WheelFile) -> dict[str, Hash]:
    """Return path -> sha256 as RECORD has it, without what it has none of."""
    from installer.records import Hash, parse_record_file

    rows = parse_record_file(source.read_dist_info("RECORD").splitlines())
    return {path: Hash.parse(text) for path, text, _ in rows if text.startswith("sha256=")}


def is_program(name: str, minor: str) -> bool:
    """Return whether a package may name a program so: by one word, and by no name of the Python `minor` itself."""
    return _PROGRAM.fullmatch(name) is not None and not _is_pythons(f"bin/{name}", minor)


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


def inflate_by_isal() -> None:
    """Let the zipfile of this process, and of those that it forks, inflate and sum by ISA-L: two thirds of zlib's time.

    Source: CPython 3.11 to 3.14, zipfile, whose two names for zlib these are; python-isal, "Usage".
    """
    from isal import isal_zlib

    vars(zipfile).update(zlib=isal_zlib, crc32=isal_zlib.crc32)


def unpack_all(wheels: list[Path], root: Path, final: Path, minor: str, jobs: int) -> None:
    """Unpack the wheels, each in a process of its own if they are not `_FEW`, the biggest first. Runs inside a worker;
    event `linked`.
    """
    # A large wheel that begins last would keep one process busy after all others have ended.
    ordered = sorted(wheels, key=lambda path: path.stat().st_size, reverse=True)
    if sum(path.stat().st_size for path in ordered) < _FEW:
        for path in ordered:
            unpack(path, root, final, minor)
            emit("linked", name=path.name)
        return

    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

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

    tree = root / final.relative_to("/")
    schemes = _schemes(wheel.name.partition("-")[0], minor)
    destination = Destination(
        {scheme: str(tree / folder) for scheme, folder in schemes.items()},
        interpreter=str(final / "bin" / f"python{minor}"),
        script_kind="posix",
        overwrite_existing=True,  # what two wheels have alike; the rest was refused before
    )
    with as_bad_wheel(wheel), warnings.catch_warnings(), WheelFile.open(wheel) as source:
        warnings.simplefilter("ignore", RuntimeWarning)  # bytecode in a wheel: it is left out, and compiled
        destination.sums = _sums(source)
        install_wheel(source, destination, {"INSTALLER": b"envmgr\n"})
