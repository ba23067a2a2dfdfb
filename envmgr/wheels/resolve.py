"""From requirements to one wheel for each package: uv resolves, `packaging` chooses, and what would be a trap is refused."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.report import Reporter, Stage
from envmgr.system.run import Runner
from envmgr.system.scratch import scratch_folder
from envmgr.system.users import Account, lesser_account
from envmgr.wheels.answers import asked_prereleases, is_prerelease
from envmgr.wheels.foreign import Metadata, extra_name
from envmgr.wheels.held import Held, differs, held
from envmgr.wheels.lock import LockedWheel, WheelSet
from envmgr.wheels.metadata import requires_of
from envmgr.wheels.pages import Listed, sha256_told
from envmgr.wheels.requirements import Question
from envmgr.wheels.settings import indexes_of, locked_url
from envmgr.wheels.stubs import write_stubs
from envmgr.wheels.target import target_environment, target_tags
from envmgr.wheels.uv import Place, UnreachedError, compile_requirements

if TYPE_CHECKING:
    from packaging.pylock import Package


def resolve_beside(
    present: Mapping[str, str],
    wanted: Question,
    python: str,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    places: Mapping[str, str],
) -> tuple[WheelSet, frozenset[str]]:
    """The wheels that are lacking where distributions are `present` (normalised name -> version), and those of them that are needed.

    Those need nothing themselves, and no wheel of theirs is taken. `python` is a version; `places` maps index -> URL or folder to ask
    instead, this once.

    Raises:
        EnvmgrError: as `find_lacking` and `refuse_traps`.
    """
    with (
        ask_indexes(wanted, python, site, runner, reporter, places) as asking,
        reporter.stage("resolve", unit="packages") as stage,
    ):
        asking.know([Metadata(name=extra_name(name), version=version) for name, version in present.items()])
        lock, used = find_lacking(asking, stage)
        refuse_traps(wanted, lock.versions)
    return lock, used


def find_lacking(asking: Asking, stage: Stage, *, builds: bool = False) -> tuple[WheelSet, frozenset[str]]:
    """The wheels that are asked for besides what `asking` knows, and those of the known that are needed.

    `builds`: the recipe could name packages that are built from their source.

    Raises:
        EnvmgrError: `unsolvable`, `no-network`, `resolve-failed`, `wheels-older`, `wheel-unhashed`.
    """
    from importlib.metadata import version

    wanted, python = asking.wanted, asking.python
    text = asking.compile(["--format", "pylock.toml", "--only-binary", ":all:"])
    chosen = list(choose(text, python, wanted.platform, wanted))
    found = [each for each in chosen if each[0].name not in asking.known]
    stage.update(len(found), total=len(found))
    _refuse_older(asking, {wheel.name: wheel.version for wheel, _ in found}, builds=builds)
    origins = asking.origins()
    asking.refuse_unhashed({wheel.name: (wheel.file, origins(wheel.name)) for wheel, _ in found})
    urls = {wheel.name: url for wheel, url in found}
    requires = requires_of(urls, asking.runner)
    wheels = tuple(
        wheel.model_copy(
            update={"index": origin, "requires": requires.get(wheel.name), "url": locked_url(origin, url, wheel.file)}
        )
        for wheel, url in sorted(found, key=lambda each: each[0].name)
        for origin in (origins(wheel.name),)
    )
    lock = WheelSet(
        python=python, platform=wanted.platform, uv=version("uv"), exclude_newer=wanted.exclude_newer, wheels=wheels
    )
    return lock, frozenset(wheel.name for wheel, _ in chosen if wheel.name in asking.known)


def refuse_traps(wanted: Question, versions: Mapping[str, str]) -> None:
    """What resolves, and is not meant. EnvmgrError `prerelease`."""
    asked = asked_prereleases(wanted)
    for name, version in versions.items():
        if name not in asked and is_prerelease(version):
            raise EnvmgrError(
                "prerelease",
                f"{name} {version} is a pre-release, and nobody asked for one",
                hint=f"ask for it by its version in the recipe (`{name}=={version}`), or constrain it to a release",
            )


class Asking:
    """One resolution's questions to uv: each of the same places, of which the next is tried where one does not answer.

    uv runs as `account`, where root asks.
    """

    def __init__(
        self,
        wanted: Question,
        python: str,
        site: Site,
        runner: Runner,
        reporter: Reporter,
        places: Mapping[str, str],
        scratch: Path,
        account: Account | None,
    ) -> None:
        self.wanted, self.python, self.runner, self.account = wanted, python, runner, account
        self.known: Mapping[str, str] = {}
        self._reporter, self._scratch = reporter, scratch
        self._places = places_of(wanted.indexes, site, places)
        self._stubs: list[str] = []

    def know(self, present: Sequence[Metadata]) -> None:
        """From here on, these are taken as they are; once."""
        self.known = {each.name: each.version for each in present}
        self._stubs = write_stubs(present, self._scratch / "known")

    def compile(self, options: Sequence[str], requirements: Sequence[str] | None = None) -> str:
        while True:
            now = [Place(name, urls[0]) for name, urls in self._places.items()]
            limits = [*self.wanted.constraints, *(f"{name}=={version}" for name, version in self.known.items())]
            try:
                return compile_requirements(
                    self.wanted.requirements if requirements is None else requirements,
                    now,
                    self.runner,
                    self._scratch,
                    python=self.python,
                    platform=self.wanted.platform,
                    constraints=limits,
                    exclude_newer=self.wanted.exclude_newer,
                    options=[*self._stubs, *options],
                    account=self.account,
                )
            except UnreachedError as error:
                broken = [name for name, urls in self._places.items() if len(urls) > 1]
                named = [name for name in broken if _host(self._places[name][0]) in "\n".join(error.context)]
                if not broken:
                    raise
                place = self._places[(named or broken)[0]].pop(0)
                self._reporter.say(f"{place} does not answer: asking the next place of the index")

    def origins(
        self, requirements: Sequence[str] | None = None, options: Sequence[str] = ("--only-binary", ":all:")
    ) -> Origins:
        """Which index each package came from; with one there is nothing to ask."""
        if len(self._places) == 1:
            return Origins({}, next(iter(self._places)))
        text = self.compile([*options, "--emit-index-annotation", "--no-annotate"], requirements)
        by_url = {urls[0].rstrip("/"): name for name, urls in self._places.items()}
        found: dict[str, str] = {}
        name = ""
        for line in text.split("\n"):
            if match := re.match(r"([A-Za-z0-9_.-]+)==", line):
                name = canonicalize_name(match[1])
            elif (match := re.match(r"\s+# from (\S+)", line)) and match[1].rstrip("/") in by_url:
                found[name] = by_url[match[1].rstrip("/")]
        return Origins(found, next(iter(self._places)))

    def refuse_unhashed(self, files: Mapping[str, tuple[str, str]]) -> None:
        """`files`: package -> file and index. EnvmgrError `wheel-unhashed`: uv would compute it from what it is sent today."""
        now = {name: Place(name, urls[0]) for name, urls in self._places.items()}
        asked = [
            Listed(index, now[index].url, name, file)
            for name, (file, index) in files.items()
            if now[index].folder is None
        ]
        told = sha256_told(asked, self.runner)
        if lacking := [each for each in asked if told[each] is False]:
            raise EnvmgrError(
                "wheel-unhashed",
                f"the index tells no sha256 of {lacking[0].file}",
                context=[f"{each.file} on {each.page}" for each in lacking[:10]],
                hint="ask an index that has hashes, or put files that you trust into a folder (`lock --index NAME=FOLDER` asks it once)",
            )
        for each in (each for each in asked if told[each] is not True):
            self._reporter.say(f"whether the index tells a sha256 of {each.file} was not seen: {told[each]}")


@contextmanager
def ask_indexes(
    wanted: Question, python: str, site: Site, runner: Runner, reporter: Reporter, places: Mapping[str, str]
) -> Iterator[Asking]:
    """For a resolution, in a folder of its own; of root's, uv runs as the site's build user."""
    account = lesser_account(site.build_user)
    with scratch_folder("resolve", account) as scratch:
        yield Asking(wanted, python, site, runner, reporter, places, scratch, account)


class Origins:
    """Package -> index; `other` for those that uv does not tell of, which lie in a folder."""

    def __init__(self, found: Mapping[str, str], other: str) -> None:
        self._found, self._other = found, other

    def __call__(self, name: str) -> str:
        return self._found.get(name, self._other)


def places_of(names: Sequence[str], site: Site, places: Mapping[str, str]) -> dict[str, list[str]]:
    """Index -> the URLs at which to ask it, in order. InputError `unknown-index`."""
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


def choose(text: str, python: str, platform: str, wanted: Question | None = None) -> Iterator[tuple[LockedWheel, str]]:
    """Of each package of a pylock.toml one wheel, with its URL; `index` is empty still. `wanted` may name the hashes of some.

    Raises EnvmgrError `resolve-failed`, `unsolvable`, `wheel-unhashed`, `hash-differs`.
    """
    from packaging.pylock import PackageWheel, Pylock, PylockSelectError

    environment = target_environment(python, platform)
    pylock = Pylock.from_dict(tomllib.loads(text))
    if wanted is not None and wanted.hashed:
        rows = held(wanted, python)
        pylock = replace(pylock, packages=[_only_hashed(each, rows) for each in pylock.packages])
    try:
        chosen: list[tuple[Package, object]] = [
            *pylock.select(environment=environment, tags=target_tags(python, platform))
        ]
    except PylockSelectError as error:
        raise EnvmgrError("resolve-failed", "no wheel of a package fits the platform", context=str(error)) from None
    for package, wheel in chosen:
        if not isinstance(wheel, PackageWheel):
            raise EnvmgrError("unsolvable", f"{package.name} is no wheel in any index", context=type(wheel).__name__)
        if "sha256" not in wheel.hashes:
            raise EnvmgrError(
                "wheel-unhashed",
                f"the index tells no sha256 of {wheel.filename}",
                context=str(wheel.url or wheel.path),
                hint="ask an index that has hashes, or a folder of wheels",
            )
        uploaded = wheel.upload_time
        yield (
            LockedWheel(
                name=canonicalize_name(package.name),
                version=str(package.version),
                file=wheel.filename,
                index="",
                sha256=wheel.hashes["sha256"],
                size=wheel.size,
                uploaded="" if uploaded is None else uploaded.isoformat(),
            ),
            str(wheel.url or Path(str(wheel.path)).absolute().as_uri()),
        )


def _only_hashed(package: Package, rows: Held) -> Package:
    """With those of its wheels that have a hash which the recipe says, where it says any. InputError `hash-differs`."""
    sums = rows.sums(package.name, str(package.version))
    wheels = package.wheels or ()
    if sums is None or not wheels:
        return package
    if kept := [wheel for wheel in wheels if wheel.hashes.get("sha256") in sums]:
        return replace(package, wheels=kept)
    found = [f"{wheel.filename}  sha256 {wheel.hashes.get('sha256', 'unknown')}" for wheel in wheels[:10]]
    raise differs(f"{package.name} {package.version}", sums, found, "the index")


def _refuse_older(asking: Asking, versions: Mapping[str, str], *, builds: bool) -> None:
    """A resolution in wheels alone goes back in time, without a word, to the last version that had one."""
    text = asking.compile(["--no-deps", "--no-annotate"])
    rows = (row.partition("==") for row in text.split("\n") if "==" in row and not row.startswith((" ", "#")))
    newest = {canonicalize_name(re.sub(r"\[.*", "", name)): re.split(r"[ ;]", version)[0] for name, _, version in rows}
    older = [
        (name, versions[name], version)
        for name, version in newest.items()
        if name in versions and Version(versions[name]) < Version(version)
    ]
    if older:
        name, here, there = older[0]
        way = f"let {there} be built from its source (`build: [{name}]` in the recipe); " if builds else ""
        raise EnvmgrError(
            "wheels-older",
            f"the newest wheel of {name} is {here}; {there} is there as source only",
            context=[f"{n}: {h} as a wheel, {t} as source" for n, h, t in older],
            hint=f"ask for `{name}=={here}` if the old one is what you want; {way}or put a wheel of {there} that you made into a folder "
            "that is an index of the site",
        )
