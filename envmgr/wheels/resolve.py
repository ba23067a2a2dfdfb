"""Resolution of requirements to one wheel for each package: uv resolves, `packaging` chooses, and traps are refused."""

from __future__ import annotations

import re
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError, joined_errors
from envmgr.report import Reporter, Stage
from envmgr.system.run import Runner
from envmgr.system.scratch import scratch_folder
from envmgr.system.users import Account, lesser_account
from envmgr.wheels.answers import prerelease_errors
from envmgr.wheels.index_pages import ListedFile, sha256_listed
from envmgr.wheels.locked import LockedWheel, WheelSet
from envmgr.wheels.metadata import Metadata, normal_name, requires_at
from envmgr.wheels.newest import wheels_older
from envmgr.wheels.requirements import Question
from envmgr.wheels.settings import indexes_of, locked_url
from envmgr.wheels.target import target_environment, target_tags
from envmgr.wheels.uv import ONLY_WHEELS, PYLOCK, IndexPlace, UnreachedError, compile_requirements

if TYPE_CHECKING:
    from packaging.pylock import Package, Pylock

_DATE = (1980, 1, 1, 0, 0, 0)
FoundWheel = tuple[LockedWheel, str]
"""A wheel, and the URL at which it lies today."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The answer of the indexes. `needed` are the names of the known packages that are needed; `problems` are what a
    person has to decide before the lock counts.
    """

    lock: WheelSet
    needed: frozenset[str]
    problems: tuple[EnvmgrError, ...]


def resolve_beside(
    present: Mapping[str, str],
    wanted: Question,
    python: str,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    places: Mapping[str, str],
) -> tuple[WheelSet, frozenset[str]]:
    """Return the wheels that are missing beside the distributions `present`, and the names of those that are needed.

    `present` (normalised name -> version) need nothing themselves, and none is replaced by a wheel. `python` is a
    version; `places` maps an index to the URL or folder to ask instead, this once.

    Raises:
        EnvmgrError: as `find_missing_wheels`, its problems, and `prerelease`.
    """
    with (
        ask_indexes(wanted, python, site, runner, reporter, places) as resolution,
        reporter.stage("resolve", unit="packages") as stage,
    ):
        resolution.know([Metadata(name=normal_name(name), version=version) for name, version in present.items()])
        found = find_missing_wheels(resolution, stage)
    if problems := [*found.problems, *prerelease_errors(wanted, found.lock.packages)]:
        raise joined_errors(problems)
    return found.lock, found.needed


def find_missing_wheels(resolution: Resolution, stage: Stage, *, newest: bool = True) -> Resolved:
    """Return the wheels that complete what `resolution` knows.

    Its problem is `wheels-older`, if `newest` versions are wanted.

    Raises:
        EnvmgrError: `unsolvable`, `no-network`, `resolve-failed`, `wheel-unhashed`.
    """
    from importlib.metadata import version

    wanted, python = resolution.wanted, resolution.python
    held = resolution.held()
    text = held.compile([*PYLOCK, *ONLY_WHEELS])
    chosen = [*choose_wheels(text, python, wanted.platform, wanted)]
    found = [each for each in chosen if each[0].name not in resolution.known]
    stage.update(len(found), total=len(found))
    versions = {wheel.name: wheel.version for wheel, _ in found}
    older = wheels_older(resolution, versions) if newest else None
    found = held.with_index(found)
    requires = requires_at({wheel.name: url for wheel, url in found}, resolution.runner)
    wheels = [
        wheel.model_copy(update={"requires": requires.get(wheel.name), "url": locked_url(wheel.index, url, wheel.file)})
        for wheel, url in sorted(found, key=lambda each: each[0].name)
    ]
    lock = WheelSet(
        python=python,
        platform=wanted.platform,
        uv=version("uv"),
        exclude_newer=wanted.exclude_newer,
        wheels=tuple(wheels),
    )
    needed = frozenset(wheel.name for wheel, _ in chosen if wheel.name in resolution.known)
    return Resolved(lock, needed, (older,) if older else ())


@contextmanager
def ask_indexes(
    wanted: Question, python: str, site: Site, runner: Runner, reporter: Reporter, places: Mapping[str, str]
) -> Iterator[Resolution]:
    """Yield a resolution in a scratch folder. Root's uv runs as the site's build user."""
    account = lesser_account(site.build_user)
    with scratch_folder("resolve", account) as scratch:
        found = index_places(wanted.indexes, site, places)
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
            _write_placeholders(present, folder)
            self._placeholders = ["--find-links", str(folder)]

    def held(self) -> Resolution:
        """Return the resolution that holds the packages to upgrade to the versions that they have without anything
        kept: uv may rather leave them old than change what is kept.
        """
        if not self.wanted.kept:
            return self
        free = replace(self, wanted=self.wanted.model_copy(update={"kept": {}}))
        versions = {
            package["name"]: str(package["version"])
            for package in tomllib.loads(free.compile([*PYLOCK, *ONLY_WHEELS])).get("packages", ())
        }
        moved = {name: versions[name] for name in self.wanted.upgrade if name in versions}
        return replace(self, wanted=self.wanted.held_to(moved))

    def compile(self, options: Sequence[str], requirements: Sequence[str] | None = None) -> str:
        """Return uv's text for `requirements`, or for those of the question.

        Raise as `compile_requirements` does.
        """
        limits = [*self.wanted.constraints, *(f"{name}=={version}" for name, version in self.known.items())]
        while True:
            try:
                return compile_requirements(
                    self.wanted.requirements if requirements is None else requirements,
                    [*self._now().values()],
                    self.runner,
                    self.scratch,
                    python=self.python,
                    platform=self.wanted.platform,
                    constraints=limits,
                    exclude_newer=self.wanted.exclude_newer,
                    kept=self.wanted.kept,
                    options=[*self._placeholders, *options],
                    account=self.account,
                )
            except UnreachedError as error:
                broken = [name for name, urls in self.places.items() if len(urls) > 1]
                named = [name for name in broken if _host(self.places[name][0]) in "\n".join(error.context)]
                if not broken:
                    raise
                place = self.places[(named or broken)[0]].pop(0)
                self.reporter.say(f"{place} does not answer: asking the next place of the index")

    def _now(self) -> dict[str, IndexPlace]:
        return {name: IndexPlace(name, urls[0]) for name, urls in self.places.items()}

    def origins(
        self, requirements: Sequence[str] | None = None, options: Sequence[str] = ONLY_WHEELS
    ) -> Callable[[str], str]:
        """Return the function from a package to its index.

        uv names none for files in folders: it is the first, then.
        """
        first = next(iter(self.places))
        found: dict[str, str] = {}
        if len(self.places) > 1:
            text = self.compile([*options, "--emit-index-annotation", "--no-annotate"], requirements)
            by_url = {urls[0].rstrip("/"): name for name, urls in self.places.items()}
            package = ""
            for line in text.split("\n"):
                if match := re.match(r"([A-Za-z0-9_.-]+)==", line):
                    package = canonicalize_name(match[1])
                elif (match := re.match(r"\s+# from (\S+)", line)) and match[1].rstrip("/") in by_url:
                    found[package] = by_url[match[1].rstrip("/")]
        return lambda name: found.get(name, first)

    def with_index(self, wheels: Sequence[FoundWheel], requirements: Sequence[str] | None = None) -> list[FoundWheel]:
        """Return the wheels with the index that each came from. Raise as `refuse_unhashed` does."""
        origins = self.origins(requirements)
        found = [(wheel.model_copy(update={"index": origins(wheel.name)}), url) for wheel, url in wheels]
        self.refuse_unhashed({wheel.name: (wheel.file, wheel.index) for wheel, _ in found})
        return found

    def refuse_unhashed(self, files: Mapping[str, tuple[str, str]]) -> None:
        """Raise EnvmgrError `wheel-unhashed` if the index gives no sha256: uv would compute one from today's file.

        `files` maps a package to its file and index.
        """
        now = self._now()
        asked = [
            ListedFile(index, now[index].url, name, file)
            for name, (file, index) in files.items()
            if now[index].folder is None
        ]
        listed = sha256_listed(asked, self.runner)
        if lacking := [each for each in asked if listed[each] is False]:
            raise EnvmgrError(
                "wheel-unhashed",
                f"the index gives no sha256 of {lacking[0].file}",
                context=[f"{each.file} on {each.page}" for each in lacking[:10]],
                hint="ask an index that has hashes, or put files that you trust into a folder "
                "(`lock --index NAME=FOLDER` asks it once)",
            )
        for each in (each for each in asked if listed[each] is not True):
            self.reporter.say(f"whether the index tells a sha256 of {each.file} was not seen: {listed[each]}")


def _write_placeholders(present: Iterable[Metadata], folder: Path) -> None:
    """Write a wheel for each into a new folder that every user can read: uv resolves around them, and none is
    installed.
    """
    folder.mkdir()
    folder.chmod(0o755)
    for each in present:
        stem = f"{each.name.replace('-', '_')}-{each.version}"
        files = {
            "METADATA": each.text,
            "WHEEL": "Wheel-Version: 1.0\nGenerator: envmgr\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "RECORD": "",
        }
        place = folder / f"{stem}-py3-none-any.whl"
        with zipfile.ZipFile(place, "w") as wheel:
            for file, text in files.items():
                wheel.writestr(zipfile.ZipInfo(f"{stem}.dist-info/{file}", _DATE), text)
        place.chmod(0o644)


def index_places(names: Sequence[str], site: Site, places: Mapping[str, str]) -> dict[str, list[str]]:
    """Map each index to the URLs at which to ask it, in order; `places` are asked instead.

    Raise InputError `unknown-index`.
    """
    known = indexes_of(site)
    found: dict[str, list[str]] = {}
    for name in names:
        if name in places:
            text = places[name]
            found[name] = [text if "://" in text else Path(text).resolve().as_uri()]
        elif name in known:
            found[name] = [*known[name].mirrors, known[name].url]
        else:
            raise InputError(
                "unknown-index",
                f"the site has no index `{name}`",
                hint=f"known: {', '.join(sorted(known))}; see `backends.wheels.indexes`",
            )
    return found


def _host(url: str) -> str:
    return url.split("/")[2] if "://" in url else url


def choose_wheels(text: str, python: str, platform: str, wanted: Question | None = None) -> Iterator[FoundWheel]:
    """Yield as `choose_files`; what `wanted` keeps is kept."""
    from packaging.pylock import Pylock

    pylock = Pylock.from_dict(tomllib.loads(text))
    if wanted is not None and wanted.kept:
        pylock = replace(pylock, packages=[_only_kept(each, wanted.kept) for each in pylock.packages])
    yield from choose_files(pylock, python, platform)


def choose_files(pylock: Pylock, python: str, platform: str) -> Iterator[FoundWheel]:
    """Yield one wheel of each package of a pylock.toml with its URL; `index` is still empty.

    Raises:
        EnvmgrError: `resolve-failed`, `unsolvable`, `wheel-unhashed`.
    """
    from packaging.pylock import PackageWheel, PylockSelectError

    try:
        chosen: list[tuple[Package, object]] = [
            *pylock.select(environment=target_environment(python, platform), tags=target_tags(python, platform))
        ]
    except PylockSelectError as error:
        raise EnvmgrError("resolve-failed", "no wheel of a package fits the platform", context=str(error)) from None
    for package, wheel in chosen:
        if not isinstance(wheel, PackageWheel):
            raise EnvmgrError("unsolvable", f"{package.name} is no wheel in any index", context=type(wheel).__name__)
        if "sha256" not in wheel.hashes:
            raise EnvmgrError(
                "wheel-unhashed",
                f"the index gives no sha256 of {wheel.filename}",
                context=str(wheel.url or wheel.path),
                hint="ask an index that has hashes, or a folder of wheels",
            )
        found = LockedWheel(
            name=canonicalize_name(package.name),
            version=str(package.version),
            file=wheel.filename,
            index="",
            sha256=wheel.hashes["sha256"],
            size=wheel.size,
            uploaded="" if wheel.upload_time is None else wheel.upload_time.isoformat(),
        )
        yield found, str(wheel.url or Path(str(wheel.path)).absolute().as_uri())


def _only_kept(package: Package, kept: Mapping[str, str]) -> Package:
    """Return the package with only the wheel that is kept, if it has that one: an index may get more of a version."""
    sha256 = kept.get(f"{package.name}=={package.version}")
    wheels = [wheel for wheel in package.wheels or () if wheel.hashes.get("sha256") == sha256]
    return replace(package, wheels=wheels) if wheels else package
