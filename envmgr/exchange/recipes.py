"""Recipes of contents, and the locks of those whose exact packages are known."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from envmgr.backends import get_backend
from envmgr.backends.conda.cuda import cuda_version
from envmgr.backends.conda.lock import PYTHON, ChannelSource, CondaLock, LockedPackage, name_of, needed_names
from envmgr.backends.conda.lockfile import lock_texts
from envmgr.backends.conda.models import CondaInput, channels_of
from envmgr.catalog.entries import RECIPE_NAME, open_catalog
from envmgr.catalog.gpus import short_cuda
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.site import Site, read_target
from envmgr.errors import EnvmgrError, InputError
from envmgr.exchange import Parsed, conda_platform
from envmgr.exchange.checks import row_for
from envmgr.system.yamlfile import dump_yaml
from envmgr.wheels.lockfile import WHEELS_LOCK, LockedRow, LockedWheels, wheels_text
from envmgr.wheels.requirements import read_requirement
from envmgr.wheels.settings import PUBLIC, index_for
from envmgr.wording import one_line

if TYPE_CHECKING:
    from envmgr.backends.wheels.input import BasePython

_GLIBC = 28  # of the platform that recipes have by default


class NotExact(Exception):  # noqa: N818 - the name of what happened
    """The packages of a file cannot be kept exactly; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A recipe. `lock` are the files of its lock, of `count` packages; empty without one.

    `lacks` is why it has none, `needs` is what a person has to decide before it is built. `comment` says more of its
    origin. `imports` are the distributions whose modules its test imports.
    """

    entry: Entry
    backend: str
    input: Mapping[str, Any]
    lock: Mapping[str, str]
    count: int
    lacks: str = ""
    needs: tuple[str, ...] = ()
    comment: str = ""
    imports: tuple[str, ...] = ()

    def files(self, made: str) -> dict[str, str]:
        """Return the files in the order of writing. `made` says by what it is made."""
        said: dict[str, Any] = {"schema": 1, "backend": self.backend, "input": dict(self.input)}
        if self.imports:
            said["tests"] = [{"name": "imports", "imports": [*self.imports]}]
        recipe = dump_yaml(said, width=120)
        more = f"# {one_line(self.comment)}\n" if self.comment else ""  # of another tool's file
        head = f"# Made by {made}.\n{more}"
        return {RECIPE_NAME: head + recipe, **self.lock}


Make = Callable[[], Draft]


def drafts_of(contents: Parsed, entry: Entry, site: Site, python: str | None) -> tuple[Make | None, Make]:
    """Return what makes the draft with exact packages, which may raise NotExact, and the one without; the first is
    None if the file is no lock. `python` is the entry below wheels; by default the newest that fits.

    When they are called, they raise InputError for a `python` that cannot be used.
    """
    if contents.specs:
        exact = (lambda: _exact_conda(contents, entry, site)) if contents.packages else None
        return exact, lambda: _conda(contents, entry, site, contents.specs, {})
    kept = (lambda: _exact_wheels(contents, entry, site, python)) if contents.locks else None
    return kept, lambda: _wheels(contents, entry, site, python)


def draft_of_packages(packages: Sequence[str], channels: Sequence[str], entry: Entry, site: Site) -> Draft:
    """Return the draft for packages of conda's channels; without any, of the index, on the newest Python that is built.

    What is asked for is imported by its test, unless a marker leaves it out, or no Python is asked for beside it.

    Raises:
        InputError: `requirement-invalid`.
    """
    if channels:
        draft = _conda(Parsed(channels=(*channels,), specs=(*packages,)), entry, site, packages, {})
    else:
        said = {"python": _newest_built(entry, site), "requirements": [*packages], **_platform()}
        draft = Draft(entry, "wheels", said, {}, len(packages))
    if faults := get_backend(draft.backend).faults(Recipe(backend=draft.backend, input=dict(draft.input)), site):
        raise InputError("requirement-invalid", f"no recipe of {entry} can ask for this", context=faults)
    if channels:
        names = [name_of(each) for each in packages]
        return replace(draft, imports=tuple(each for each in names if each != PYTHON) if PYTHON in names else ())
    rows = map(read_requirement, packages)
    return replace(draft, imports=tuple(dict.fromkeys(each.name for each in rows if each.marker is None)))


def _conda(contents: Parsed, entry: Entry, site: Site, specs: Sequence[str], more: Mapping[str, Any]) -> Draft:
    names = {url.rstrip("/"): name for name, each in channels_of(site).items() for url in (each.url, *each.mirrors)}
    channels = [names.get(each.rstrip("/"), each) for each in contents.channels] or ["conda-forge"]
    found: dict[str, Any] = {"channels": [*dict.fromkeys(channels)], "specs": [*specs], **more}
    if conda_platform() != "linux-64":
        found["platform"] = conda_platform()
    if cuda := short_cuda(cuda_version(contents.packages)):
        found["virtual_packages"] = {"__cuda": cuda}
    if contents.rows:
        found["pip"] = [*contents.rows]
    return Draft(entry, "conda", found, {}, len(contents.packages) + len(contents.wheels))


def _exact_conda(contents: Parsed, entry: Entry, site: Site) -> Draft:
    if contents.lacks:
        raise NotExact(contents.lacks)
    packages = tuple(_own_url(each, site) for each in contents.packages)
    _require_complete(packages)
    indexes = _indexes([(each, each.url or "") for each in contents.wheels], site)
    more = {} if indexes in ([], [PUBLIC]) else {"indexes": indexes}
    draft = _conda(contents, entry, site, [f"{each.name} {each.version}" for each in _roots(packages)], more)
    wanted = CondaInput.model_validate(draft.input)
    added = None
    if contents.wheels:
        added = LockedWheels(
            recipe=wanted.digest(),
            python=next((each.version for each in packages if each.name == PYTHON), ""),
            platform=wanted.question().platform,
            indexes=wanted.indexes,
            rows=tuple(
                row.model_copy(update={"url": None}) for row in sorted(contents.wheels, key=lambda row: row.name)
            ),
        )
    own = channels_of(site)
    lock = CondaLock(
        platform=wanted.platform,
        recipe_digest=wanted.digest(),
        packages=packages,
        channels=tuple(ChannelSource(name, own[name].url if name in own else name) for name in wanted.channels),
        added=added,
    )
    return replace(draft, lock=lock_texts(lock))


def _require_complete(packages: Sequence[LockedPackage]) -> None:
    """Raise NotExact if the file lacks a package that another one needs. Virtual packages are the system's."""
    names = {each.name for each in packages}
    for package in packages:
        for row in package.depends:
            if "[" in row:
                raise NotExact(f"{package.name} {package.version} needs `{row}`, which only a solver reads")
            if not (name := name_of(row)).startswith("__") and name not in names:
                raise NotExact(f"{package.name} {package.version} needs `{row}`, which the file lacks")


def _own_url(package: LockedPackage, site: Site) -> LockedPackage:
    """Return the package with the URL of its channel where it names a mirror of the site."""
    for channel in channels_of(site).values():
        if package.channel in [each.rstrip("/") for each in channel.mirrors]:
            return replace(package, url=f"{channel.url}/{package.subdir}/{package.file_name}")
    return package


def _roots(packages: Sequence[LockedPackage]) -> list[LockedPackage]:
    """Return those that the others need nothing of, and one of each circle: the lock answers them, and no more."""
    depends = {each.name: each.depends for each in packages}
    below = {name_of(row) for rows in depends.values() for row in rows}
    roots = [each for each in packages if each.name not in below or each.name == PYTHON]  # which a recipe should say
    seen = needed_names([each.name for each in roots], depends)
    for each in packages:
        if each.name not in seen:
            roots.append(each)
            seen |= needed_names([each.name], depends)
    return roots


def _indexes(wheels: Iterable[tuple[LockedRow, str]], site: Site) -> list[str]:
    """Return the indexes of wheels, which a file names by their URLs. Raise NotExact if one lies in none of the site's."""
    found = dict[str, None]()
    for row, url in wheels:
        if not (index := index_for(url, site)):
            raise NotExact(f"{row.name} {row.version} comes from no index of the site (`backends.wheels.indexes`)")
        found[index] = None
    return [*found]


def _bases(contents: Parsed, entry: Entry, site: Site, python: str | None) -> Iterator[tuple[str, BasePython]]:
    """Yield the Pythons for wheels: the one that was named, or those of the catalog that fit, the newest first."""
    from envmgr.backends.wheels.input import SYSTEM, load_base

    if python is not None:
        yield python, load_base(python, entry, site)
        return
    for each, base in _pythons(entry, site):
        if _fits(contents, base, odd=True):
            yield each, base
    yield SYSTEM, load_base(SYSTEM, entry, site)


def _pythons(entry: Entry, site: Site) -> Iterator[tuple[str, BasePython]]:
    """Yield the Pythons of the catalog, below `entry`, that have a lock, the newest first."""
    from envmgr.backends.wheels.input import load_base

    for each in reversed([str(each.entry) for each in open_catalog(site).entries() if each.entry.name == PYTHON]):
        with suppress(EnvmgrError):
            yield each, load_base(each, entry, site)


def _newest_built(entry: Entry, site: Site) -> str:
    """Return the newest Python of the catalog that is built; without any, the operating system's."""
    from envmgr.backends.wheels.input import SYSTEM

    target = read_target(site.cpu_level)
    built = (
        name
        for name, base in _pythons(entry, site)
        if base.entry is not None and base.entry.lock.items(site, target)[-1].install.exists()
    )
    return next(built, SYSTEM)


def _fits(contents: Parsed, base: BasePython, *, odd: bool) -> bool:
    """Return whether the file wants a Python such as the base's; `odd` if nobody can read what it wants."""
    try:
        return SpecifierSet(contents.python).contains(base.version, prereleases=True)
    except InvalidSpecifier:
        return odd


def _wheels(contents: Parsed, entry: Entry, site: Site, python: str | None) -> Draft:
    name, base = next(_bases(contents, entry, site, python))
    odd = contents.python and not _fits(contents, base, odd=False)
    needs = (f"the file wants Python {one_line(contents.python)}",) if odd else ()
    found = {"python": name, "requirements": [*contents.rows], **_platform()}
    return Draft(entry, "wheels", found, {}, len(contents.rows), needs=needs)


def _platform() -> dict[str, str]:
    return {} if platform.machine() == "x86_64" else {"platform": f"{platform.machine()}-manylinux_2_{_GLIBC}"}


def _exact_wheels(contents: Parsed, entry: Entry, site: Site, python: str | None) -> Draft:
    from envmgr.backends.wheels.input import WheelsInput, read_question

    if contents.lacks:
        raise NotExact(contents.lacks)
    why = ""
    for name, base in _bases(contents, entry, site, python):
        try:
            rows, indexes = _rows(contents, base, site)
        except (EnvmgrError, NotExact) as error:
            why = why or (
                f"{error.message}: {' '.join(error.context)}" if isinstance(error, EnvmgrError) else str(error)
            )
            continue
        said: dict[str, Any] = {"python": name, "requirements": [*map(row_for, rows)]}
        said |= {} if indexes in ([], [PUBLIC]) else {"indexes": indexes}
        said |= _platform()
        question = read_question(WheelsInput.model_validate(said), site.prefix)  # it names no file
        lock = LockedWheels(
            recipe=question.digest(),
            python=base.version,
            platform=question.platform,
            indexes=question.indexes,
            rows=rows,
        )
        return Draft(entry, "wheels", said, {WHEELS_LOCK: wheels_text(lock)}, len(rows))
    raise NotExact(why)


def _rows(contents: Parsed, base: BasePython, site: Site) -> tuple[tuple[LockedRow, ...], list[str]]:
    """Return the exact wheels for a Python, and their indexes. Raise NotExact; EnvmgrError as `choose_files`."""
    from envmgr.wheels.resolve import choose_files

    if contents.pylock is None:
        return contents.wheels, [*contents.indexes]
    version = base.version if base.version.count(".") > 1 else f"{base.version}.0"
    found = [*choose_files(contents.pylock, version, f"{platform.machine()}-manylinux_2_{_GLIBC}")]
    return tuple(each.row for each in found), _indexes([(each.row, each.url) for each in found], site)
