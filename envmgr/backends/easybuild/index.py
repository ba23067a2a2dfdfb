"""EasyBuild's own files in the package index: which they are, for a lock; where mirrors of the index have them, for a fetch."""

from __future__ import annotations

import platform
import sys
import tomllib
from collections.abc import Mapping, Sequence

from packaging.pylock import Pylock
from packaging.utils import canonicalize_name

from envmgr.backends.easybuild.input import EASYBUILD
from envmgr.backends.easybuild.lock import PACKAGES, EasyBuildFile
from envmgr.backends.easybuild.released import CONTENTS, FILES
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, Interrupted
from envmgr.report import Reporter
from envmgr.system.run import Runner
from envmgr.system.scratch import scratch_folder
from envmgr.wheels.fetch import urls_of
from envmgr.wheels.requirements import Question
from envmgr.wheels.resolve import ask_indexes, choose_wheels, index_places
from envmgr.wheels.settings import DEFAULT_INDEXES, PUBLIC, locked_url
from envmgr.wheels.uv import IndexPlace, compile_requirements

# What builds a source that has no pyproject.toml, as EasyBuild's have none. Source: PEP 517, "Source trees".
_BUILDS = "setuptools"
# Any will do: EasyBuild's sources, and what builds them, are for every platform.
_PLATFORM = f"{platform.machine()}-manylinux_2_17"
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def find_files(
    version: str, contents: str, site: Site, runner: Runner, reporter: Reporter
) -> tuple[tuple[EasyBuildFile, ...], str]:
    """What an EasyBuild of that version is made from; none, and why, where that cannot be told.

    `contents` is the `contents_sum` of the EasyBuild that is here.
    """
    if version == EASYBUILD:
        return (FILES, "") if contents == CONTENTS else ((), "the EasyBuild that is here is not as it was released")
    try:
        return _ask(version, site, runner, reporter), ""
    except Interrupted:
        raise
    except EnvmgrError as error:
        return (), error.message


def _ask(version: str, site: Site, runner: Runner, reporter: Reporter) -> tuple[EasyBuildFile, ...]:
    rows = tuple(f"{package}=={version}" for package in PACKAGES)
    question = Question(requirements=rows, indexes=(PUBLIC,), platform=_PLATFORM)
    with ask_indexes(question, _PYTHON, site, runner, reporter, {}) as asking:
        text = asking.compile([*_sources(PACKAGES), "--format", "pylock.toml"])
        builds = asking.compile(["--no-deps", "--only-binary", ":all:", "--format", "pylock.toml"], [_BUILDS])
        found = [*_sdists(text), *_wheels(builds)]
        asking.refuse_unhashed({file.package: (file.name, PUBLIC) for file in found})
    return tuple(found)


def _sdists(text: str) -> list[EasyBuildFile]:
    """In the order of PACKAGES."""
    found = {}
    for package in Pylock.from_dict(tomllib.loads(text)).packages:
        sdist, name = package.sdist, canonicalize_name(package.name)
        if sdist is None or "sha256" not in sdist.hashes:
            raise EnvmgrError(
                "wheel-unhashed", f"the index tells no source of {name} {package.version} with its sha256"
            )
        found[name] = EasyBuildFile(
            package=name,
            version=str(package.version),
            name=sdist.filename,
            sha256=sdist.hashes["sha256"],
            url=locked_url(PUBLIC, str(sdist.url or sdist.path), sdist.filename),
        )
    return [found[canonicalize_name(name)] for name in PACKAGES]


def _wheels(text: str) -> list[EasyBuildFile]:
    return [
        EasyBuildFile(
            package=wheel.name,
            version=wheel.version,
            name=wheel.file,
            sha256=wheel.sha256,
            url=locked_url(PUBLIC, url, wheel.file),
        )
        for wheel, url in choose_wheels(text, _PYTHON, _PLATFORM)
    ]


def mirrors_of(site: Site) -> list[str]:
    """The site's own places of the index, in order: URLs and folders."""
    return [url for url in index_places([PUBLIC], site, {})[PUBLIC] if url != DEFAULT_INDEXES[PUBLIC].url]


def listed_at(mirror: str, file: EasyBuildFile) -> str:
    """Where a mirror of the index tells of a file."""
    return f"{mirror}/{file.name if IndexPlace(PUBLIC, mirror).folder else f'{file.package}/'}"


def find_in_mirrors(
    files: Sequence[EasyBuildFile], site: Site, runner: Runner, reporter: Reporter, *, label: str
) -> Mapping[str, tuple[str, ...]]:
    """sha256 -> URLs of each in the site's mirrors of the index, in their order. A mirror that does not answer is told, and has none."""
    found: dict[str, tuple[str, ...]] = {}
    for mirror in mirrors_of(site):
        try:
            there = _look(files, IndexPlace(PUBLIC, mirror), runner)
        except Interrupted:
            raise
        except EnvmgrError as error:
            reporter.say(f"{label}: {mirror}: {error.message}")
            continue
        for file in files:
            if url := there.get(file.sha256):
                found[file.sha256] = (*found.get(file.sha256, ()), url)
    return found


def _look(files: Sequence[EasyBuildFile], place: IndexPlace, runner: Runner) -> dict[str, str]:
    if place.folder is not None:
        return {file.sha256: (place.folder / file.name).as_uri() for file in files}
    with scratch_folder("index") as scratch:
        text = compile_requirements(
            [f"{file.package}=={file.version}" for file in files],
            [place],
            runner,
            scratch,
            python=_PYTHON,
            platform=_PLATFORM,
            options=[*_sources([file.package for file in files if not file.builds]), "--format", "pylock.toml"],
        )
    return dict(urls_of(tomllib.loads(text)))


def _sources(packages: Sequence[str]) -> list[str]:
    """To take the source of these, wheels of others, and nothing that they need."""
    return ["--no-deps", "--only-binary", ":all:", *(word for name in packages for word in ("--no-binary", name))]
