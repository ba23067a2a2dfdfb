"""Files of other tools: what one of them says, and what of an entry's lock can be written as one.

Each format is one module of `formats/`. It reads a file into `Parsed`, or writes an `ExactPackages`, or both. `recipes`
makes a recipe and its lock of contents; `exact` gives the packages of a lock.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from envmgr.catalog.names import nearest
from envmgr.errors import EnvmgrError, InputError
from envmgr.exchange import formats
from envmgr.system.invisible import TABS
from envmgr.system.untrusted_files import ANYWHERE, Kind, read_file_text
from envmgr.wording import did_you_mean, masked, one_line

if TYPE_CHECKING:
    from packaging.pylock import Pylock

    from envmgr.backends.conda.lock import CondaLock, LockedPackage
    from envmgr.system.run import Runner
    from envmgr.wheels.index import ListedFile
    from envmgr.wheels.lockfile import LockedRow

_FILE, _IN_FOLDER = Kind("file", 16 << 20, TABS), Kind("file", 256 << 20, TABS)
REQUIREMENTS = "requirements"
_SUBDIRS = {"x86_64": "linux-64"}
_WAY = "name it by `envmgr import --from`"
_LONGEST = 200  # characters of a line that is shown
_MOST_LEFT = 5000  # rows
_MOST_PLACES = 100  # at which a text is looked for as words
_JOINED, _GOES_ON = re.compile(r"[\w-]"), re.compile(r"[\w-]|\.\w")


@dataclass(frozen=True, slots=True)
class Dropped:
    """Something of a file that is not carried over. `line` is 0 where no line of the file says it."""

    line: int
    text: str
    why: str


@dataclass(slots=True)
class ReadFile:
    """A file to read. `subdir` is conda's name of the site's platform; `count` are the rows that are left so far.
    `tree` is the folder to which it belongs, if the user named one.
    """

    path: Path
    text: str
    subdir: str
    runner: Runner
    count: int = 0
    tree: Path | None = None

    def left(self, text: object, why: str, line: int = 0) -> Dropped:
        """Return the row for a part of the file; without `line`, its line is the first that has the text as words.

        Raise InputError `import-invalid` for too many rows: each is looked for in the whole text.
        """
        self.count += 1
        if self.count > _MOST_LEFT:
            raise self.invalid(f"more than {_MOST_LEFT} parts of it cannot be carried over")
        shown = str(text)
        return Dropped(line or self._line_of(shown), one_line(masked(shown), _LONGEST), one_line(masked(why)))

    def _line_of(self, shown: str) -> int:
        place = -1
        for _ in range(_MOST_PLACES if shown else 0):
            if (place := self.text.find(shown, place + 1)) < 0:
                break
            before, after = self.text[max(place - 1, 0) : place], self.text[place + len(shown) : place + len(shown) + 2]
            if not _JOINED.match(before) and not _GOES_ON.match(after):
                return self.text.count("\n", 0, place) + 1
        return 0

    def rows(self, value: object) -> list[Any]:
        """Return a list of the file, which may be absent. Raise InputError `import-invalid` for another value."""
        if value is not None and not isinstance(value, list):
            raise self.invalid(f"`{one_line(value, 60)}` must be a list")
        return value or []

    def invalid(self, why: object, hint: str = "") -> InputError:
        """Return the error for a file that is not of its format."""
        return InputError("import-invalid", f"{one_line(self.path)} cannot be read: {one_line(why)}", hint=hint)

    def require_platform(self, found: object, others: Sequence[str]) -> None:
        """Raise InputError `platform-missing` if nothing was `found` for the platform of this site."""
        if not found and others:
            raise InputError(
                "platform-missing",
                f"{one_line(self.path)} has no packages for {self.subdir}",
                context=f"it has some for {', '.join(sorted(map(one_line, {*others})))}",
                hint=f"lock for {self.subdir} with the tool that wrote it, and import again",
            )


@dataclass(frozen=True, slots=True)
class OneEntry:
    """One entry of a file that makes several: its name, the fields of its recipe's input, and its backend. `needs` are
    things that a person should know or decide first.
    """

    name: str
    version: str
    input: Mapping[str, Any]
    backend: str
    needs: tuple[str, ...] = ()
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """The content of a file. Fields that its format does not have are empty.

    `specs` and `rows` are what it asks for, or its packages with their versions if it is a lock. `packages` are exact
    packages of conda; `wheels` are those of an index, which come from `indexes` if the file says so. A `pylock` has
    several files of some, of which the Python decides. `lacks` says why they cannot be kept exactly. `entries` are those of a file that makes several; if it `goes_on`, those that a catalog has are left.
    `differences` are installs that it names and that are not there.
    """

    left: tuple[Dropped, ...] = ()
    name: str = ""
    version: str = ""
    description: str = ""
    python: str = ""
    channels: tuple[str, ...] = ()
    specs: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    packages: tuple[LockedPackage, ...] = ()
    wheels: tuple[LockedRow, ...] = ()
    indexes: tuple[str, ...] = ()
    pylock: Pylock | None = None
    entries: tuple[OneEntry, ...] = ()
    goes_on: bool = False
    differences: tuple[Dropped, ...] = ()
    lacks: str = ""

    @property
    def locks(self) -> bool:
        """True for a file of exact packages, by their sums."""
        return bool(self.packages or self.wheels or self.pylock or self.lacks)


@dataclass(frozen=True, slots=True)
class ExactPackages:
    """The exact packages of an entry's lock. `conda` is None for an entry of wheels. `files` are those of wheels by
    sha256, and `indexes` those that the wheels come from: they are asked for only where they are needed.
    """

    entry: str
    python: str
    conda: CondaLock | None
    wheels: tuple[LockedRow, ...]
    files: Callable[[], Mapping[str, ListedFile]]
    indexes: Callable[[], Sequence[str]]

    def only_conda(self) -> CondaLock:
        """Return the packages of conda. Raise InputError `export-impossible` if there are none."""
        if self.conda is None:
            raise self._impossible("wheels", "packages of conda")
        return self.conda

    def only_wheels(self) -> list[Dropped]:
        """Return the packages of conda as rows that are left. Raise InputError `export-impossible` if all are."""
        if not self.wheels:
            raise self._impossible("packages of conda", "wheels")
        packages = () if self.conda is None else self.conda.packages
        return [
            Dropped(0, f"{each.name} {each.version}", "a package of conda: the format has only wheels")
            for each in packages
        ]

    def _impossible(self, has: str, wanted: str) -> InputError:
        fits = "environment, pylock, requirements" if self.conda is None else "conda-lock, environment, explicit, pixi"
        return InputError(
            "export-impossible",
            f"{self.entry} is made of {has}, and this format has only {wanted}",
            hint=f"`--to` takes {fits} for it",
        )


class FileFormat(Protocol):
    """A module of `formats/`. One that reads has `CONTENT`, which its texts have, or else `NAME`, and `read`; one that
    writes has `write`. `INSIDE`, if it has it, are the files that stand for a folder.
    """

    NAME: ClassVar[re.Pattern[str]]
    CONTENT: ClassVar[re.Pattern[str] | None]

    def read(self, given: ReadFile) -> Parsed:
        """Return the content. Raise InputError `import-invalid`, `platform-missing`."""

    def write(self, exact: ExactPackages) -> tuple[str, list[Dropped]]:
        """Return the text, and what of the lock it does not hold."""


def _formats(what: str) -> Iterator[tuple[str, FileFormat]]:
    """Yield the formats that can `read` or `write`, by name."""
    for found in sorted(module.name for module in pkgutil.iter_modules(formats.__path__)):
        module = importlib.import_module(f"{formats.__name__}.{found}")
        if hasattr(module, what):
            yield found.replace("_", "-"), cast("FileFormat", module)


def writers() -> dict[str, FileFormat]:
    """Return the formats that an entry's lock can be written as."""
    return dict(_formats("write"))


def conda_platform() -> str:
    """Return conda's name of the site's platform."""
    return _SUBDIRS.get(platform.machine(), f"linux-{platform.machine()}")


def _place(path: Path) -> Path:
    """Return the whole path, as recipes can name it: without `..`, and with links as they were named."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - Path would keep `..`


def read_file(
    path: Path,
    runner: Runner,
    name: str | None = None,
    *,
    way: str = _WAY,
    otherwise: str | None = None,
    tree: Path | None = None,
) -> tuple[str, Parsed]:
    """Return the format of a file, which is `name` or what its text and name say, and its content. A file that looks
    like none is `otherwise`. `way` is what helps if that is unclear. A folder is read by the file in it that a format
    names; `tree` is as in `ReadFile`.

    Raises:
        InputError: `unknown-exchange`, `format-unclear`, as `read_file_text`, and as the format's reader.
    """
    known = dict(_formats("read"))
    inside = [path / file for each in known.values() for file in getattr(each, "INSIDE", ()) if path.is_dir()]
    in_folder = next((file for file in inside if file.is_file()), None)
    text = read_file_text(in_folder or path, _IN_FOLDER if in_folder else _FILE, tree=ANYWHERE)
    below = None if tree is None else _place(tree)
    given = ReadFile(_place(in_folder or path), text, conda_platform(), runner, tree=below)
    if name is not None and name not in known:
        close = nearest(name, known)
        hint = did_you_mean(close, f"known: {', '.join(known)}")
        raise InputError("unknown-exchange", f"nothing is read from `{name}`", hint=hint)
    chosen = [name] if name is not None else _recognised(given, known) or ([otherwise] if otherwise else [])
    if len(chosen) != 1:
        said = f"may be {' or '.join(chosen)}" if chosen else "is of no format that is known by its name or its text"
        hint = f"{way}: {', '.join(chosen or known)}"
        raise InputError("format-unclear", f"{one_line(path)} {said}", hint=hint)
    try:
        return chosen[0], known[chosen[0]].read(given)
    except (EnvmgrError, OSError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - the libraries that read strangers' files have many
        raise given.invalid(error or type(error).__name__) from None


@dataclass(frozen=True, slots=True)
class FoundTree:
    """A folder of another tool that `import` can read: its format, and the entries that it would make. `why` says why it
    cannot be read, empty if it can.
    """

    path: str
    format: str
    entries: int
    why: str = ""


def trees_above(places: Sequence[Path], runner: Runner) -> tuple[FoundTree, ...]:
    """Return the folders above `places` that have the records of another tool, as this host can read them."""
    folders = {parent for place in places if place.is_absolute() for parent in (place, *place.parents)}
    found = []
    for name, format_ in _formats("read"):
        inside: Sequence[str] = getattr(format_, "INSIDE", ())
        for folder in sorted(folders if inside else ()):
            if any((folder / file).is_file() for file in inside):
                try:
                    made = read_file(folder, runner, name)[1]
                    found.append(FoundTree(str(folder), name, len(made.entries)))
                except EnvmgrError as error:
                    found.append(FoundTree(str(folder), name, 0, error.message))
    return tuple(found)


def _recognised(given: ReadFile, known: Mapping[str, FileFormat]) -> list[str]:
    """Return the formats that the text has, or else the name; of several, those that the name also fits."""

    def named(name: str) -> bool:
        return known[name].NAME.fullmatch(given.path.name) is not None

    found = [name for name, each in known.items() if each.CONTENT is not None and each.CONTENT.search(given.text)]
    found = found or [name for name, each in known.items() if each.CONTENT is None and named(name)]
    return found if len(found) == 1 else [name for name in found if named(name)] or found
