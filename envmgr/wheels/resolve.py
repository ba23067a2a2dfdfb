"""Resolution of requirements to one file for each package: uv resolves, `packaging` chooses, and traps are refused."""

from __future__ import annotations

import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name
from packaging.version import Version

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError, joined_errors
from envmgr.report import Reporter, Stage
from envmgr.system.run import Runner
from envmgr.system.scratch import scratch_folder
from envmgr.system.users import Account, lesser_account
from envmgr.wheels.index import IndexPlace, look
from envmgr.wheels.lock_checks import asked_urls, prerelease_errors
from envmgr.wheels.lockfile import LockedRow, LockedWheels, file_of
from envmgr.wheels.metadata import Metadata
from envmgr.wheels.requirements import Question
from envmgr.wheels.settings import indexes_of
from envmgr.wheels.target import target_environment, target_tags
from envmgr.wheels.uv import UnreachedError, compile_requirements, public_index, refuse_foreign

if TYPE_CHECKING:
    from packaging.pylock import Package, PackageSdist, PackageWheel, Pylock

ONLY_WHEELS = ("--only-binary", ":all:")
_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A package of an answer, and its file where it lies today; `size` is bytes, None if the index does not say."""

    row: LockedRow
    file: str
    url: str
    size: int | None


@dataclass(frozen=True, slots=True)
class Resolved:
    """The answer of the indexes. `needed` are the names of the known packages that are needed; `problems` are what a
    person has to decide before the lock counts.
    """

    lock: LockedWheels
    needed: frozenset[str]
    problems: tuple[EnvmgrError, ...]


def resolve_beside(
    present: Sequence[Metadata],
    wanted: Question,
    python: str,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    places: Mapping[str, str] = MappingProxyType({}),
    *,
    newest: bool = True,
) -> Resolved:
    """Return the wheels that are missing beside the packages `present`, of which none is replaced by a wheel.

    `python` is a version; `places` maps an index to the URL or folder to ask instead, this once.

    Raises:
        EnvmgrError: as `find_missing_wheels`, its problems, and `prerelease`.
    """
    with (
        ask_indexes(wanted, python, site, runner, reporter, places) as resolution,
        reporter.stage("resolve", unit="packages") as stage,
    ):
        resolution.know(present)
        found = find_missing_wheels(resolution, stage, newest=newest)
    if problems := [*found.problems, *prerelease_errors(wanted, found.lock.rows)]:
        raise joined_errors(problems)
    return found


def find_missing_wheels(
    resolution: Resolution, stage: Stage, sources: Sequence[FoundFile] = (), *, newest: bool = True
) -> Resolved:
    """Return the wheels that complete what `resolution` knows, and its `sources`, as one lock.

    Its problem is `wheels-older`, if `newest` versions are wanted.

    Raises:
        EnvmgrError: `unsolvable`, `no-network`, `resolve-failed`, `wheel-unhashed`.
    """
    held = resolution
    if moving := resolution.wanted.upgrade:
        # Where nothing is kept: uv may rather leave them old than change what is kept.
        free = replace(resolution, wanted=resolution.wanted.model_copy(update={"kept": {}}))
        packages = free.ask(ONLY_WHEELS).get("packages", ())
        moved = {each["name"]: str(each["version"]) for each in packages if each["name"] in moving}
        held = replace(resolution, wanted=resolution.wanted.held_to(moved))
    chosen = held.wheels()
    found = [each for each in chosen if each.row.name not in resolution.known]
    stage.update(len(found), total=len(found))
    held.refuse_unhashed(found)
    lock = resolution.lock_of([*found, *sources])
    needed = frozenset(each.row.name for each in chosen if each.row.name in resolution.known)
    return Resolved(lock, needed, tuple(_wheels_older(resolution, lock.versions)) if newest else ())


def _wheels_older(resolution: Resolution, versions: Mapping[str, str]) -> Iterator[EnvmgrError]:
    """Yield the error `wheels-older` if `versions` has an older version of an asked package than the recipe allows.

    With only wheels, and beside packages that stay, uv goes back to the last version that works, and does not say so.
    """
    asked = resolution.ask(["--no-deps"]).get("packages", ())
    newest = {canonicalize_name(each["name"]): each["version"] for each in asked if "version" in each}
    older = [
        (name, versions[name], there)
        for name, there in newest.items()
        if name in versions and Version(versions[name]) < Version(there)
    ]
    target = f"Python {resolution.python} on {resolution.wanted.platform}"
    facts = [
        f"{name} has no wheel of {there} for {target} that fits: the lock would get {here}"
        for name, here, there in older
    ]
    for name, here, _ in older[:1]:
        yield EnvmgrError(
            "wheels-older",
            facts[0],
            context=facts[1:],
            hint=f"ask for `{name}=={here}` if that one is what you want; or for another Python or a later platform; or "
            "`build` what has no wheel from its source, in a recipe of wheels",
        )


@contextmanager
def ask_indexes(
    wanted: Question, python: str, site: Site, runner: Runner, reporter: Reporter, places: Mapping[str, str]
) -> Iterator[Resolution]:
    """Yield a resolution in a scratch folder. Root's uv runs as the site's build user."""
    account = lesser_account(site.build_user)
    with scratch_folder("resolve", account) as scratch:
        found = index_places(wanted.indexes, site, runner, places)
        yield Resolution(wanted, python, site, runner, reporter, found, scratch, account)


@dataclass(slots=True)
class Resolution:
    """The questions of one resolution to uv: all ask the same places. If one does not answer, the next replaces it."""

    wanted: Question
    python: str
    site: Site
    runner: Runner
    reporter: Reporter
    places: dict[str, list[str]]
    scratch: Path
    account: Account | None
    known: Mapping[str, str] = field(default_factory=dict)
    _placeholders: Sequence[str] = ()

    def know(self, present: Sequence[Metadata]) -> None:
        """Take these as they are from here on. Can be called once."""
        self.known = {each.name: each.version for each in present}
        if present:
            folder = self.scratch / "known"
            folder.mkdir()
            folder.chmod(0o755)  # every user can read them
            for each in present:
                _write_placeholder(each, folder)
            self._placeholders = ["--find-links", str(folder)]

    def ask(self, options: Sequence[str], requirements: Sequence[str] | None = None) -> dict[str, Any]:
        """Return uv's answer, a pylock.toml, for `requirements`, or for those of the question.

        Raises:
            EnvmgrError: as `compile_requirements`, and `index-foreign`.
        """
        asked = self.wanted.requirements if requirements is None else tuple(requirements)
        wanted = self.wanted.model_copy(update={"requirements": asked}).held_to(self.known)
        given = [*self._placeholders, *options]
        while True:
            places = self._now()
            try:
                text = compile_requirements(
                    wanted, self.python, places, self.runner, self.scratch, options=given, account=self.account
                )
                break
            except UnreachedError as error:
                broken = [name for name, urls in self.places.items() if len(urls) > 1]
                named = [name for name in broken if urlsplit(self.places[name][0]).netloc in "\n".join(error.context)]
                if not broken:
                    raise
                place = self.places[(named or broken)[0]].pop(0)
                self.reporter.say(f"{place} does not answer: asking the next place of the index")
        found = tomllib.loads(text)
        refuse_foreign(found.get("packages", ()), places, self.scratch)
        return found

    def wheels(self, requirements: Sequence[str] | None = None) -> list[FoundFile]:
        """Return one wheel for each package that answers `requirements`, or the question; what it keeps is kept."""
        from packaging.pylock import Pylock

        pylock = Pylock.from_dict(self.ask(ONLY_WHEELS, requirements))
        packages = [_only_kept(each, self.wanted.kept) for each in pylock.packages]
        urls = asked_urls(self.wanted.requirements if requirements is None else requirements)
        return [*choose_files(replace(pylock, packages=packages), self.python, self.wanted.platform, urls)]

    def sources(self, names: Sequence[str], requirements: Sequence[str]) -> list[FoundFile]:
        """Return the source of each package that answers `requirements`, which is of these `names`.

        Raises:
            EnvmgrError: as `ask`; `unsolvable`, `wheel-unhashed`.
        """
        from packaging.pylock import Pylock

        # `--only-binary :all:` is for what builds them, and `--no-binary` for themselves.
        options = ["--no-deps", *ONLY_WHEELS, *(word for name in names for word in ("--no-binary", name))]
        found = []
        for package in Pylock.from_dict(self.ask(options, requirements)).packages:
            if package.sdist is None:
                raise EnvmgrError("unsolvable", f"no index has a source of {package.name} {package.version}")
            found.append(_found_file(package, package.sdist))
        return found

    def lock_of(self, found: Iterable[FoundFile]) -> LockedWheels:
        """Return the lock of what was found; the recipe's digest is still empty."""
        each = [*found]
        sizes = [file.size for file in each if file.size is not None]
        return LockedWheels(
            python=self.python,
            platform=self.wanted.platform,
            indexes=self.wanted.indexes,
            exclude_newer=self.wanted.exclude_newer,
            size=sum(sizes) if len(sizes) == len(each) else None,
            rows=tuple(sorted((file.row for file in each), key=lambda row: row.name)),
        )

    def _now(self) -> list[IndexPlace]:
        return [IndexPlace(name, urls[0]) for name, urls in self.places.items()]

    def refuse_unhashed(self, found: Iterable[FoundFile]) -> None:
        """Raise EnvmgrError `wheel-unhashed` if an index gives no sha256 of a file: uv would compute one from today's
        file, and nobody could find it by that.

        To compute it, uv downloads the file, and unpacks it: only of such wheels, and of sources, the page is read.
        """
        whole = {canonicalize_name(path.name) for path in (self.scratch / "cache").rglob("*.dist-info")}
        waiting = {
            each.row.name: each
            for each in found
            if not each.row.url
            and (
                not each.file.endswith(".whl")
                or canonicalize_name(f"{each.row.name}-{each.row.version}.dist-info") in whole
            )
        }
        for place in self._now() if waiting else ():
            if place.folder is not None:  # uv takes a name from folders first
                files = {path.name for path in place.folder.iterdir()}
                waiting = {name: each for name, each in waiting.items() if each.file not in files}
                continue
            for name, listed in look((each.row for each in waiting.values()), place, self.runner).items():
                file = waiting[name].file
                if isinstance(listed, Exception):
                    self.reporter.say(f"whether the index tells a sha256 of {file} was not seen: {listed}")
                    del waiting[name]
                elif any(each.sha256 == waiting[name].row.sha256 for each in listed):
                    del waiting[name]
                elif any(each.file == file for each in listed):
                    raise unhashed(file, [f"{file} on {place.page(name)}"])


def unhashed(file: str, context: Sequence[str]) -> EnvmgrError:
    """Return the error for an index that gives no sha256 of a file."""
    return EnvmgrError(
        "wheel-unhashed",
        f"the index gives no sha256 of {file}",
        context=context,
        hint="ask an index that has hashes, or put files that you trust into a folder (`lock --index NAME=FOLDER` asks it "
        "once)",
    )


def _write_placeholder(package: Metadata, folder: Path) -> None:
    """Write a wheel of only metadata: uv resolves around it, and it is never installed."""
    stem = f"{package.name.replace('-', '_')}-{package.version}"
    wheel_file = "Wheel-Version: 1.0\nGenerator: envmgr\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    place = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(place, "w") as wheel:
        for file, text in (("METADATA", package.text), ("WHEEL", wheel_file), ("RECORD", "")):
            wheel.writestr(zipfile.ZipInfo(f"{stem}.dist-info/{file}", _DATE), text)
    place.chmod(0o644)


def index_places(
    names: Iterable[str], site: Site, runner: Runner, places: Mapping[str, str] | None = None
) -> dict[str, list[str]]:
    """Map each index to the URLs at which to ask it, in order; `places` are asked instead.

    Raise InputError `unknown-index`.
    """
    known = indexes_of(site)
    found: dict[str, list[str]] = {}
    for name in names:
        if text := (places or {}).get(name):
            found[name] = [text if "://" in text else Path(text).resolve().as_uri()]
        elif name in known:
            found[name] = [*known[name].mirrors, known[name].url or public_index(runner)]
        else:
            raise InputError(
                "unknown-index",
                f"the site has no index `{name}`",
                hint=f"known: {', '.join(sorted(known))}; see `backends.wheels.indexes`",
            )
    return found


def choose_files(
    pylock: Pylock, python: str, platform: str, urls: Mapping[str, tuple[str, str]] = MappingProxyType({})
) -> Iterator[FoundFile]:
    """Yield one wheel of each package of a pylock.toml. `urls` maps a name to the URL and the sha256 that are asked for.

    Raises:
        EnvmgrError: `resolve-failed`, `unsolvable`, `wheel-unhashed`.
    """
    from packaging.pylock import PackageArchive, PackageWheel, PylockSelectError

    try:
        chosen: list[tuple[Package, object]] = [
            *pylock.select(environment=target_environment(python, platform), tags=target_tags(python, platform))
        ]
    except PylockSelectError as error:
        raise EnvmgrError("resolve-failed", "no wheel of a package fits the platform", context=str(error)) from None
    for package, file in chosen:
        name = canonicalize_name(package.name)
        if isinstance(file, PackageArchive) and name in urls:
            # Its sum is held when it is fetched: uv believes the URL.
            url, sha256 = urls[name]
            row = LockedRow(name=name, version=str(package.version), sha256=sha256, url=url)
            yield FoundFile(row, file_of(url), url, file.size)
        elif isinstance(file, PackageWheel):
            yield _found_file(package, file)
        else:
            raise EnvmgrError("unsolvable", f"no index has a wheel of {package.name}", context=type(file).__name__)


def _found_file(package: Package, file: PackageWheel | PackageSdist) -> FoundFile:
    """Return a file of a package. Raise EnvmgrError `wheel-unhashed`."""
    if "sha256" not in file.hashes:
        raise unhashed(file.filename, [str(file.url or file.path)])
    sha256 = file.hashes["sha256"].lower()
    row = LockedRow(name=canonicalize_name(package.name), version=str(package.version), sha256=sha256)
    url = str(file.url or Path(str(file.path)).absolute().as_uri())
    size = Path(unquote(urlsplit(url).path)).stat().st_size if url.startswith("file://") else file.size
    return FoundFile(row, file.filename, url, size)


def _only_kept(package: Package, kept: Mapping[str, str]) -> Package:
    """Return the package with only the wheel that is kept, if it has that one: an index may get more of a version."""
    sha256 = kept.get(f"{package.name}=={package.version}")
    wheels = [wheel for wheel in package.wheels or () if wheel.hashes.get("sha256") == sha256]
    return replace(package, wheels=wheels) if wheels else package
