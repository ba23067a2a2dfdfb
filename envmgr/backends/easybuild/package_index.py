"""EasyBuild's own files in the package index: which they are, for a lock; where mirrors have them, for a fetch."""

from __future__ import annotations

import platform
import sys
import tomllib
from collections.abc import Mapping, Sequence

from packaging.pylock import Pylock
from packaging.utils import canonicalize_name

from envmgr.backends.easybuild import Workbench
from envmgr.backends.easybuild.lock import DEFAULT_CONTENTS, DEFAULT_FILES, PACKAGES, EasyBuildFile
from envmgr.backends.easybuild.settings import EASYBUILD
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, Interrupted
from envmgr.system.run import Runner
from envmgr.system.scratch import scratch_folder
from envmgr.wheels.fetch import urls_of
from envmgr.wheels.requirements import Question
from envmgr.wheels.resolve import ask_indexes, choose_wheels, index_places
from envmgr.wheels.settings import DEFAULT_INDEXES, PUBLIC, locked_url
from envmgr.wheels.uv import IndexPlace, compile_requirements

# Builds a source that has no pyproject.toml, such as EasyBuild's. Source: PEP 517, "Source trees".
_BUILDS = "setuptools"
# Any will do: EasyBuild's sources, and what builds them, are for every platform.
_PLATFORM = f"{platform.machine()}-manylinux_2_17"
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def find_files(version: str, contents: str, bench: Workbench) -> tuple[tuple[EasyBuildFile, ...], str]:
    """Return the files that an EasyBuild of that version is made from; or none, and why they cannot be known.

    `contents` is the `contents_sum` of the EasyBuild that is here.
    """
    if version == EASYBUILD:
        same = contents == DEFAULT_CONTENTS
        return (DEFAULT_FILES, "") if same else ((), "the EasyBuild that is here is not as it was released")
    try:
        return _ask(version, bench), ""
    except Interrupted:
        raise
    except EnvmgrError as error:
        return (), error.message


def _ask(version: str, bench: Workbench) -> tuple[EasyBuildFile, ...]:
    rows = tuple(f"{package}=={version}" for package in PACKAGES)
    question = Question(requirements=rows, indexes=(PUBLIC,), platform=_PLATFORM)
    with ask_indexes(question, _PYTHON, bench.site, bench.runner, bench.reporter, {}) as asking:
        text = asking.compile([*_sources(PACKAGES), "--format", "pylock.toml"])
        builds = asking.compile(["--no-deps", "--only-binary", ":all:", "--format", "pylock.toml"], [_BUILDS])
        found = [*_sdists(text), *_wheels(builds)]
        asking.refuse_unhashed({file.package: (file.name, PUBLIC) for file in found})
    return tuple(found)


def _sdists(text: str) -> list[EasyBuildFile]:
    """Return the sources in the order of PACKAGES."""
    found = {}
    for package in Pylock.from_dict(tomllib.loads(text)).packages:
        sdist, name, version = package.sdist, canonicalize_name(package.name), str(package.version)
        if sdist is None or "sha256" not in sdist.hashes:
            raise EnvmgrError("wheel-unhashed", f"the index lists no source of {name} {version} with its sha256")
        found[name] = _file(name, version, sdist.filename, sdist.hashes["sha256"], str(sdist.url or sdist.path))
    return [found[canonicalize_name(name)] for name in PACKAGES]


def _wheels(text: str) -> list[EasyBuildFile]:
    chosen = choose_wheels(text, _PYTHON, _PLATFORM)
    return [_file(wheel.name, wheel.version, wheel.file, wheel.sha256, url) for wheel, url in chosen]


def _file(package: str, version: str, name: str, sha256: str, url: str) -> EasyBuildFile:
    place = locked_url(PUBLIC, url, name)
    return EasyBuildFile(package=package, version=version, name=name, sha256=sha256, url=place)


def mirrors_of(site: Site) -> list[str]:
    """Return the site's own places of the index, in order: URLs and folders."""
    return [url for url in index_places([PUBLIC], site, {})[PUBLIC] if url != DEFAULT_INDEXES[PUBLIC].url]


def listed_at(mirror: str, file: EasyBuildFile) -> str:
    """Return the place at which a mirror of the index lists a file."""
    return f"{mirror}/{file.name if IndexPlace(PUBLIC, mirror).folder else f'{file.package}/'}"


def find_in_mirrors(files: Sequence[EasyBuildFile], bench: Workbench) -> Mapping[str, tuple[str, ...]]:
    """Return sha256 -> URLs of each file in the site's mirrors of the index, in their order.

    A mirror that does not answer is reported, and has none.
    """
    found: dict[str, tuple[str, ...]] = {}
    for mirror in mirrors_of(bench.site):
        try:
            there = _look(files, IndexPlace(PUBLIC, mirror), bench.runner)
        except Interrupted:
            raise
        except EnvmgrError as error:
            bench.reporter.say(f"{bench.label}: {mirror}: {error.message}")
            continue
        for file in files:
            if url := there.get(file.sha256):
                found[file.sha256] = (*found.get(file.sha256, ()), url)
    return found


def _look(files: Sequence[EasyBuildFile], place: IndexPlace, runner: Runner) -> dict[str, str]:
    if place.folder is not None:
        return {file.sha256: (place.folder / file.name).as_uri() for file in files}
    rows = [f"{file.package}=={file.version}" for file in files]
    options = [*_sources([file.package for file in files if not file.builds]), "--format", "pylock.toml"]
    with scratch_folder("index") as scratch:
        text = compile_requirements(rows, [place], runner, scratch, python=_PYTHON, platform=_PLATFORM, options=options)
    return dict(urls_of(tomllib.loads(text)))


def _sources(packages: Sequence[str]) -> list[str]:
    """Return uv's options for the source of these, wheels of other packages, and nothing that they need."""
    return ["--no-deps", "--only-binary", ":all:", *(word for name in packages for word in ("--no-binary", name))]
