"""From requirements to one wheel for each package: uv resolves, `packaging` chooses, and what would be a trap is refused."""

from __future__ import annotations

import re
import tempfile
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import canonicalize_name
from packaging.version import Version

from envmgr.backends.wheels.base import Base
from envmgr.backends.wheels.input import Wanted
from envmgr.backends.wheels.lock import LockedSdist, LockedWheel, WheelsLock, cuda_majors
from envmgr.backends.wheels.metadata import requires_of
from envmgr.backends.wheels.settings import indexes_of
from envmgr.backends.wheels.uv import Place, UnreachedError, compile_requirements
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.report import Reporter
from envmgr.system.run import Runner

_OLD_NAMES = {(2, 17): "manylinux2014", (2, 12): "manylinux2010", (2, 5): "manylinux1"}


def resolve(
    wanted: Wanted, base: Base, folder: Path, site: Site, runner: Runner, reporter: Reporter, places: Mapping[str, str]
) -> WheelsLock:
    """Resolve for the Python of `base`. `folder` is the recipe's. `places` maps index -> URL or folder to ask instead, this once.

    Raises:
        EnvmgrError: `unsolvable`, `no-network`, `resolve-failed`, `wheels-older`, `prerelease`, `two-cudas`, `wheel-unhashed`, `build-unasked`,
            and see `lock_sources`.
    """
    from importlib.metadata import version

    with tempfile.TemporaryDirectory(prefix="envmgr-") as scratch, reporter.stage("resolve", unit="packages") as stage:
        python = base.version
        asking = Asking(wanted, python, site, runner, reporter, places, Path(scratch))
        sdists = _lock_sources(wanted, base, folder, asking, Path(scratch), site, runner, reporter)
        text = asking.compile(["--format", "pylock.toml", "--only-binary", ":all:"])
        chosen = list(choose(text, python, wanted.platform))
        _refuse_unasked(wanted, {wheel.name for wheel, _ in chosen})
        found = [(wheel, url) for wheel, url in chosen if wheel.name not in wanted.build]
        stage.update(len(chosen), total=len(chosen))
        _refuse_older(asking, {wheel.name: wheel.version for wheel, _ in found})
        origins = asking.origins()
        urls = {wheel.name: url for wheel, url in found}
        requires = requires_of(urls, runner)
        wheels = tuple(
            wheel.model_copy(update={"index": origins(wheel.name), "requires": requires.get(wheel.name)})
            for wheel, _ in sorted(found, key=lambda each: each[0].name)
        )
        lock = WheelsLock(
            recipe_digest=wanted.digest(), python=python, platform=wanted.platform, uv=version("uv"),
            exclude_newer=wanted.exclude_newer, wheels=wheels, sdists=sdists,
        )  # fmt: skip
        _refuse_prereleases(wanted, lock.versions)
        _refuse_two_cudas(lock.versions)
    return lock


def _lock_sources(
    wanted: Wanted, base: Base, folder: Path, asking: Asking, scratch: Path, site: Site, runner: Runner, reporter: Reporter
) -> tuple[LockedSdist, ...]:  # fmt: skip
    """From here on `asking` knows what they need."""
    if not wanted.build:
        return ()
    from envmgr.backends.wheels.source.locking import lock_sources

    stubs = scratch / "stubs"
    stubs.mkdir()
    sdists = lock_sources(wanted, base, folder, asking, stubs, site, runner, reporter)
    asking.know(stubs, [f"{sdist.name}=={sdist.version}" for sdist in sdists])
    return sdists


class Asking:
    """One resolution's questions to uv: each of the same places, of which the next is tried where one does not answer."""

    def __init__(
        self, wanted: Wanted, python: str, site: Site, runner: Runner, reporter: Reporter, places: Mapping[str, str], scratch: Path
    ) -> None:  # fmt: skip
        self.python = python
        self._wanted, self._runner, self._reporter, self._scratch = wanted, runner, reporter, scratch
        self._places = places_of(wanted.indexes, site, places)
        self._stubs: list[Place] = []
        self._pins: list[str] = []

    def know(self, stubs: Path, pins: Sequence[str]) -> None:
        """Of packages that are built from source: a folder of wheels with their metadata, and their versions."""
        self._stubs, self._pins = [Place("stubs", stubs.as_uri())], [*pins]

    def compile(self, options: Sequence[str], requirements: Sequence[str] | None = None) -> str:
        while True:
            now = [Place(name, urls[0]) for name, urls in self._places.items()]
            try:
                return compile_requirements(
                    self._wanted.requirements if requirements is None else requirements, [*self._stubs, *now], self._runner,
                    self._scratch, python=self.python, platform=self._wanted.platform,
                    constraints=[*self._wanted.constraints, *self._pins],
                    exclude_newer=self._wanted.exclude_newer, options=options,
                )  # fmt: skip
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
        for line in text.splitlines():
            if match := re.match(r"([A-Za-z0-9_.-]+)==", line):
                name = canonicalize_name(match[1])
            elif (match := re.match(r"\s+# from (\S+)", line)) and match[1].rstrip("/") in by_url:
                found[name] = by_url[match[1].rstrip("/")]
        return Origins(found, next(iter(self._places)))


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
                "unknown-index", f"the site has no index `{name}`", hint=f"known: {', '.join(sorted(known))}; see `backends.wheels.indexes`"
            )  # fmt: skip
    return found


def _host(url: str) -> str:
    return url.split("/")[2] if "://" in url else url


def target_tags(python: str, platform: str) -> list[Tag]:
    """The tags of wheels that run there, best first. `python` is a version, `platform` in uv's words.

    Source: packaging.python.org, "Platform compatibility tags"; PEP 600.
    """
    from packaging.tags import compatible_tags, cpython_tags

    major, minor = (int(part) for part in python.split(".")[:2])
    arch, _, glibc = platform.partition("-manylinux_2_")
    names: list[str] = []
    for newest in range(int(glibc), 4, -1):
        names.append(f"manylinux_2_{newest}_{arch}")
        if (2, newest) in _OLD_NAMES and (arch == "x86_64" or newest == 17):
            names.append(f"{_OLD_NAMES[2, newest]}_{arch}")
    names.append(f"linux_{arch}")
    interpreter = f"cp{major}{minor}"
    return [
        *cpython_tags((major, minor), platforms=names),
        *compatible_tags((major, minor), interpreter, names),
    ]


def choose(text: str, python: str, platform: str) -> Iterator[tuple[LockedWheel, str]]:
    """Of each package of a pylock.toml one wheel, with its URL; `index` is empty still."""
    from packaging.markers import default_environment
    from packaging.pylock import Package, PackageWheel, Pylock, PylockSelectError

    environment = default_environment()
    environment |= {
        "python_version": ".".join(python.split(".")[:2]), "python_full_version": python, "implementation_version": python,
        "implementation_name": "cpython", "platform_python_implementation": "CPython", "platform_machine": platform.partition("-")[0],
        "platform_system": "Linux", "sys_platform": "linux", "os_name": "posix",
    }  # fmt: skip
    try:
        chosen: list[tuple[Package, object]] = [
            *Pylock.from_dict(tomllib.loads(text)).select(environment=environment, tags=target_tags(python, platform))
        ]
    except PylockSelectError as error:
        raise EnvmgrError("resolve-failed", "no wheel of a package fits the platform", context=str(error)) from None
    for package, wheel in chosen:
        if not isinstance(wheel, PackageWheel):
            raise EnvmgrError("unsolvable", f"{package.name} is no wheel in any index", context=type(wheel).__name__)
        if "sha256" not in wheel.hashes:
            raise EnvmgrError(
                "wheel-unhashed", f"the index tells no sha256 of {wheel.filename}", context=str(wheel.url or wheel.path),
                hint="ask an index that has hashes, or a folder of wheels",
            )  # fmt: skip
        uploaded = wheel.upload_time
        yield LockedWheel(
            name=canonicalize_name(package.name), version=str(package.version), file=wheel.filename, index="",
            sha256=wheel.hashes["sha256"], size=wheel.size, uploaded="" if uploaded is None else uploaded.isoformat(),
        ), str(wheel.url or Path(str(wheel.path)).absolute().as_uri())  # fmt: skip


def _refuse_older(asking: Asking, versions: Mapping[str, str]) -> None:
    """A resolution in wheels alone goes back in time, without a word, to the last version that had one."""
    text = asking.compile(["--no-deps", "--no-annotate"])
    rows = (row.partition("==") for row in text.splitlines() if "==" in row and not row.startswith((" ", "#")))
    newest = {canonicalize_name(re.sub(r"\[.*", "", name)): re.split(r"[ ;]", version)[0] for name, _, version in rows}
    older = [
        (name, versions[name], version)
        for name, version in newest.items()
        if name in versions and Version(versions[name]) < Version(version)
    ]
    if older:
        name, here, there = older[0]
        raise EnvmgrError(
            "wheels-older", f"the newest wheel of {name} is {here}; {there} is there as source only",
            context=[f"{n}: {h} as a wheel, {t} as source" for n, h, t in older],
            hint=f"ask for `{name}=={here}` if the old one is what you want; let {there} be built from its source "
            f"(`build: [{name}]` in the recipe); or put a wheel of {there} that you made into a folder that is an index of the site",
        )  # fmt: skip


def _refuse_unasked(wanted: Wanted, found: Collection[str]) -> None:
    if unasked := [name for name in wanted.build if name not in found]:
        raise InputError(
            "build-unasked", f"input.build names {', '.join(unasked)}, which nothing asks for",
            hint="add it to `requirements`, or take it out of `build`",
        )  # fmt: skip


def _refuse_prereleases(wanted: Wanted, versions: Mapping[str, str]) -> None:
    """uv takes one where there is nothing else."""
    for name, version in versions.items():
        if Version(version).is_prerelease and not _asks_for_prerelease(name, wanted):
            raise EnvmgrError(
                "prerelease", f"{name} {version} is a pre-release, and nobody asked for one",
                hint=f"ask for it by its version in the recipe (`{name}=={version}`), or constrain it to a release",
            )  # fmt: skip


def _asks_for_prerelease(name: str, wanted: Wanted) -> bool:
    rows = (Requirement(row) for row in (*wanted.requirements, *wanted.constraints))
    return any(canonicalize_name(each.name) == name and bool(each.specifier.prereleases) for each in rows)


def _refuse_two_cudas(versions: Mapping[str, str]) -> None:
    majors = cuda_majors(versions)
    if len(majors) > 1:
        raise EnvmgrError(
            "two-cudas", f"the lock would have libraries of CUDA {' and of CUDA '.join(sorted(majors))}",
            context=[f"CUDA {major}: {', '.join(names)}" for major, names in sorted(majors.items())],
            hint="each process loads one of them: make two entries, or constrain one package to a version for the other CUDA",
        )  # fmt: skip
