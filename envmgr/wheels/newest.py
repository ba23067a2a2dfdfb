"""The reason why a lock would get no wheel of a version, and the fields of the recipe that change it: uv is asked
again, for later platforms and for the packages that have no wheel.

uv's failures are recognised by its words. Source: tried with uv 0.13.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from envmgr.errors import EnvmgrError, Interrupted
from envmgr.wheels.target import target_tags
from envmgr.wheels.uv import ONLY_WHEELS, PYLOCK, later_platforms
from envmgr.wording import and_more, one_line

if TYPE_CHECKING:
    from envmgr.wheels.requirements import Question

_LACKS = re.compile(r"Wheels are required for `([^`]+)`|found wheels for `([^`]+)`|Wheels are available for `([^`]+)`")
_OF_PYTHON = re.compile(r"Python ABI tag|requires Python|Requires-Python|current Python version")
_LONGEST = 200  # characters of a file's name, which the index says
_AT_MOST = 5  # packages that are looked at: each costs some seconds
OWN_WHEEL = "put a wheel that you made into a folder that is an index of the site"


@dataclass(frozen=True, slots=True)
class RecipeFields:
    """The fields of a recipe that change which wheels fit, as it writes them: `platform` for a `{platform}` or
    `{glibc}`, `build` for `{names}`. `build` is empty where a recipe cannot have packages built.
    """

    platform: str
    build: str = ""


class Asks(Protocol):
    """A resolution: it asks uv."""

    wanted: Question
    python: str

    def compile(
        self, options: Sequence[str], requirements: Sequence[str] | None = None, *, platform: str | None = None
    ) -> str: ...

    def listed(self, name: str) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why something has no wheels: the facts, the ways out as texts of a hint, and uv's own words."""

    facts: tuple[str, ...]
    ways: tuple[str, ...]
    words: tuple[str, ...] = ()


def wheels_older(asks: Asks, versions: Mapping[str, str], fields: RecipeFields) -> EnvmgrError | None:
    """Return the error `wheels-older` if `versions` has an older version of an asked package than the recipe allows."""
    if not (older := older_versions(asks, versions)):
        return None
    facts, ways = list[str](), list[str]()
    for name, here, there in older[:_AT_MOST]:
        reason = why_not(asks, [*asks.wanted.requirements, f"{name}=={there}"], fields, f"{name} {there}")
        facts += reason.facts or reason.words
        ways += [*reason.ways, f"ask for `{name}=={here}` if that one is what you want"]
    name, here, there = older[0]
    return EnvmgrError(
        "wheels-older",
        f"the newest {name} that the recipe allows is {there}, and the lock would get {here}",
        context=[
            *facts,
            *(f"{name}: {there} was not looked at, {here} is taken" for name, here, there in older[_AT_MOST:]),
        ],
        hint="; or ".join(dict.fromkeys(ways)),
    )


def older_versions(asks: Asks, versions: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return each asked package of which `versions` has an older version than there is: its name, that version, and the
    newest that is asked for.

    With only wheels, and beside packages that stay, uv goes back to the last version that works, and does not say so.
    """
    text = asks.compile(["--no-deps", "--no-annotate"])
    rows = (row.partition("==") for row in text.split("\n") if "==" in row and not row.startswith((" ", "#")))
    newest = {canonicalize_name(re.sub(r"\[.*", "", name)): re.split(r"[ ;]", version)[0] for name, _, version in rows}
    return [
        (name, versions[name], version)
        for name, version in newest.items()
        if name in versions and Version(versions[name]) < Version(version)
    ]


def explain_unsolvable(asks: Asks, error: EnvmgrError, fields: RecipeFields) -> EnvmgrError:
    """Return the error `unsolvable` of the recipe's requirements with the reason, if more than uv's words is known."""
    reason = why_not(asks, asks.wanted.requirements, fields, "a solution")
    kept = [line for line in error.context if "--no-build" not in line]
    error.context, error.hint = (*kept, *reason.facts), "; or ".join(reason.ways) or error.hint
    return error


def why_not(asks: Asks, rows: Sequence[str], fields: RecipeFields, what: str) -> Reason:
    """Return why `rows`, which are there to get `what`, have no solution in wheels for the recipe's platform.

    A question that fails in another way gives no reason, and hides no error that was there before. Raise Interrupted.
    """
    later = later_platforms(asks.wanted.platform)
    found: dict[str, str] = {}

    def solves(platform: str) -> bool:
        try:
            found[platform] = asks.compile([*PYLOCK, *ONLY_WHEELS], rows, platform=platform)
        except Interrupted:
            raise
        except EnvmgrError:
            return False
        return True

    if later and solves(later[-1]):
        first = later[bisect_left(later, True, hi=len(later) - 1, key=solves)]
        return _platform_reason(asks, found[first], first, fields, what)
    return _package_reason(asks, rows, fields)


def _platform_reason(asks: Asks, text: str, platform: str, fields: RecipeFields, what: str) -> Reason:
    """Return the reason for a `text` that uv gave for the later `platform`."""
    tags = frozenset(target_tags(asks.python, asks.wanted.platform))
    files = [name for name in _files(text) if name.endswith(".whl") and _is_other(name, tags)]
    glibc = ".".join(platform.rsplit("_", 2)[1:])
    field = fields.platform.format(platform=platform, glibc=glibc)
    return Reason(
        (f"{what} needs wheels for {platform}, and the recipe is for {asks.wanted.platform}: {and_more(files, 5)}",),
        (f"{field} in the recipe gets {what}, if every node has glibc {glibc} or later",),
    )


def _is_other(wheel: str, tags: frozenset[Tag]) -> bool:
    """Return whether a wheel's name says that it has none of `tags`."""
    return any(has and tags.isdisjoint(has) for has in _wheels([wheel]).values())


def _package_reason(asks: Asks, rows: Sequence[str], fields: RecipeFields) -> Reason:
    """Return the reason for rows that no later platform solves: sources, another Python, or a conflict."""
    try:
        asks.compile([*PYLOCK, *ONLY_WHEELS], rows)
    except Interrupted:
        raise
    except EnvmgrError as error:
        words = [line for line in error.context if not line.startswith(("asked: ", "index "))]
    else:  # an index that changed meanwhile
        return Reason((), ())
    names = dict.fromkeys(canonicalize_name(next(filter(None, found))) for found in _LACKS.findall("\n".join(words)))
    sources, facts, pythons = list[str](), list[str](), False
    platforms = {tag.platform for tag in target_tags(asks.python, asks.wanted.platform)}
    for name in [*names][:_AT_MOST]:
        version, files = _newest_files(asks, name, rows)
        if wheels := _wheels(files):
            where = f"{name} {version} has no wheel for Python {asks.python} on {asks.wanted.platform}"
            here = sorted(
                {tag.interpreter for tags in wheels.values() for tag in tags if tag.platform in platforms}, key=_age
            )
            pythons = pythons or bool(here)
            facts.append(
                f"{where}; it has {'some for ' if here else ''}{and_more(here or sorted(wheels), 5 if here else 3)}"
            )
        elif files:
            facts.append(f"{name} {version} has no wheels: there is only its source, {files[0]}")
        if files and any(not file.endswith(".whl") for file in files):
            sources.append(name)
    ways = list[str]()
    if sources and fields.build:
        ways.append(f"{fields.build.format(names=', '.join(sources))} in the recipe builds it from its source")
    if sources:
        ways.append(OWN_WHEEL)
    if pythons or _OF_PYTHON.search("\n".join(words)):
        ways.insert(0, "build on another Python (`python` in the recipe)")
    return Reason(tuple(facts), tuple(ways), tuple(words))


def _newest_files(asks: Asks, name: str, rows: Sequence[str]) -> tuple[str, list[str]]:
    """Return the newest version of a package that `rows` allow, and its files for all platforms; "" and none if it
    cannot be known.
    """
    asked = [row for row in rows if canonicalize_name(re.split(r"[^A-Za-z0-9._-]", row, maxsplit=1)[0]) == name]
    try:
        text = asks.compile([*PYLOCK, "--no-deps", "--universal"], asked or [name])
    except Interrupted:
        raise
    except EnvmgrError:
        return "", []
    version = next((str(each["version"]) for each in tomllib.loads(text).get("packages", ()) if "version" in each), "")
    files = [*_files(text)]
    if version and not any(file.endswith(".whl") for file in files):
        files += [file for file in map(one_line, asks.listed(name)) if _is_of(file, name, version)]
    return version, files


def _is_of(wheel: str, name: str, version: str) -> bool:
    try:
        return parse_wheel_filename(wheel)[:2] == (name, Version(version))
    except InvalidWheelFilename:
        return False


def _wheels(files: Sequence[str]) -> dict[str, frozenset[Tag]]:
    """Return the wheels among `files`, with the tags in their names; none for a name that cannot be read."""
    found = dict[str, frozenset[Tag]]()
    for file in files:
        if file.endswith(".whl"):
            try:
                found[file] = parse_wheel_filename(file)[3]
            except InvalidWheelFilename:
                found[file] = frozenset()
    return found


def _age(interpreter: str) -> tuple[str, int]:
    """Return what sorts `cp39` before `cp310`."""
    kind = interpreter.rstrip("0123456789")
    return kind, int(interpreter[len(kind) :] or 0)


def _files(text: str) -> Iterator[str]:
    """Yield the names of all files in a pylock.toml; the source of a package comes before its wheels."""
    for package in tomllib.loads(text).get("packages", ()):
        for file in (*([package["sdist"]] if "sdist" in package else []), *package.get("wheels", ())):
            name = file.get("name") or unquote(str(file.get("url") or file["path"]).rpartition("/")[2])
            yield one_line(name, _LONGEST)
