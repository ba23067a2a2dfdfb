"""Requirements from any source: each is bounded, read by `packaging` and written again before use.

A row of a recipe, of a file next to it, of a wheel's METADATA or of a source's build system enters here. None of them
can name a place, an option or a second line; the result is one line of visible ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Self

from pydantic import Field

from envmgr.system.models import FrozenModel
from envmgr.wheels.lockfile import wheel_version
from envmgr.wheels.target import marker_holds
from envmgr.wording import one_line, shortened

if TYPE_CHECKING:  # a parser, which is slow to import: a lock is read without it
    from packaging.markers import Marker
    from packaging.requirements import Requirement

    from envmgr.wheels.lockfile import LockedRow, LockedWheels

MOST_ROWS = 5_000  # requirements of one file, or of one package
MOST_FAULTS = 100  # rows that are refused, in one message
_LONGEST = 2_000  # characters of one; the longest that were seen have some 300
_MOST_EXTRAS = 100  # of one; the most that were seen are 45
_DEEPEST = 30  # brackets that are open at once; `packaging` takes several calls for each
_MEANS = (
    "the site's indexes give what is asked for; a folder of wheels can be one (`backends.wheels.indexes` of site.yaml)"
)
_OPTIONS = (
    (re.compile(r"-e|--editable"), f"a checkout or a folder has no sha256: build a wheel of it; {_MEANS}"),
    (re.compile(r"-r|--requirement"), "a file names no other file: put the rows of that one here"),
    (re.compile(r"-c|--constraint"), "limits belong to the field `constraints`, which also takes a file"),
    (
        re.compile(r"-i\b|-f\b|--(extra-)?index-url|--find-links|--no-index"),
        "indexes are named in site.yaml (`backends.wheels.indexes`), and chosen by the recipe's `indexes`",
    ),
)
_URL = r"(git|hg|svn|bzr)\+|[A-Za-z][A-Za-z0-9+.-]*://"
_FOLDER = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\]\s*)?@\s*file:")
_PLACE = re.compile(rf"([A-Za-z0-9._-]+\s*(\[[^\]]*\]\s*)?@\s*)?({_URL})|[./~]|[^;@]*/")
# A wheel by its URL, with its sum in the URL, as PEP 508 has it, or beside the row, as pip has it.
_WHEEL = re.compile(
    r"(?P<name>[^@\s][^@]*)@\s*(?P<url>(https?|file)://[^\s#]+)(#sha256=(?P<own>[0-9a-fA-F]{64}))?"
    r"(?P<marker>\s+;.+?)?(\s+--hash[= ]sha256:(?P<beside>[0-9a-fA-F]{64}))?"
)
# Of names, versions, extras and markers. `#`, `$` and `\` mean something to pip and uv, whatever stands around them.
_STRANGE = re.compile(r"[^A-Za-z0-9 \t._,;:<>=!~*+()\[\]\"'@/%&?^|-]")


class HashedRow(FrozenModel):
    """A requirement of a file, and the sha256 sums that its author wrote beside it."""

    requirement: str
    sha256: tuple[str, ...] = ()


class Question(FrozenModel):
    """The question that a lock answers. `platform` is in uv's words.

    `indexes` are names of the site's: a package comes from the first that has its name. `kept` (`name==version` ->
    sha256) are taken as they are if they fit, while the packages `upgrade` move; neither is part of the question that a
    lock records.
    """

    requirements: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    indexes: tuple[str, ...]
    exclude_newer: str | None = None
    platform: str
    kept: Mapping[str, str] = Field(default={}, exclude=True)
    upgrade: tuple[str, ...] = Field(default=(), exclude=True)

    def keeping(self, files: Iterable[LockedRow], upgrade: Collection[str] = ()) -> Self:
        """Return the same question, whose answer keeps the files of packages that are not to `upgrade`."""
        kept = {f"{each.name}=={each.version}": each.sha256 for each in files if each.name not in upgrade}
        return self.model_copy(update={"kept": kept, "upgrade": tuple(upgrade)})

    def again(self, old: LockedWheels, upgrade: Collection[str] = ()) -> Self:
        """Return the same question, whose answer is that of the lock `old`, but for the packages to `upgrade` and what
        these need.
        """
        return (self if upgrade else self.held_to(old.versions)).keeping(old.rows, upgrade)

    def held_to(self, versions: Mapping[str, str]) -> Self:
        """Return the same question, whose answer has no other version of these packages."""
        limits = (f"{name}=={version}" for name, version in sorted(versions.items()))
        return self.model_copy(update={"constraints": (*self.constraints, *limits)})


def read_requirement(row: str) -> Requirement:
    """Return one requirement that an index can answer. Raise ValueError for everything else, with reason and way
    out.
    """
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    shown = one_line(row, 60)
    if len(row) > _LONGEST:
        raise ValueError(f"`{shown}`: a requirement has {_LONGEST} characters at most")
    if strange := _STRANGE.search(row.replace("#", "")):  # in a URL it has a meaning: see below
        raise ValueError(f"`{shown}` is no requirement: it has U+{ord(strange[0]):04X}")
    if row.startswith("-"):
        means = next((text for option, text in _OPTIONS if option.match(row)), f"options do not belong here: {_MEANS}")
        raise ValueError(f"`{shown}`: {means}")
    wheel = _with_sum(row)
    if not wheel and (folder := _FOLDER.match(row)):
        raise ValueError(
            f"`{shown}` names a folder of another machine, as `pip freeze` does for conda's packages: write "
            f"`{folder[1]}==VERSION`, or name {folder[1]} in `specs` of a conda recipe"
        )
    if not wheel and " --hash" in row:
        reason = "a recipe has no hashes, its lock has one of each file"
        raise ValueError(f"`{shown}`: {reason}; `envmgr import FILE --as NAME/VERSION` keeps those of a file")
    if not wheel and _PLACE.match(row):
        raise _names_place(shown)
    if not wheel and "#" in row:
        raise ValueError(f"`{shown}` is no requirement: it has U+0023")
    if max(accumulate((each == "(") - (each == ")") for each in row), default=0) > _DEEPEST:
        raise ValueError(f"`{shown}` has more than {_DEEPEST} brackets in each other")
    try:
        requirement = Requirement(wheel or row.replace("\t", " ").strip())
    except InvalidRequirement as error:
        raise ValueError(f"`{shown}` is no requirement: {one_line(str(error).partition(chr(10))[0])}") from None
    if requirement.url is not None and not wheel:
        raise _names_place(shown)
    if wheel and not wheel_version(canonicalize_name(requirement.name), str(requirement.url).partition("#")[0]):
        raise ValueError(f"`{shown}`: its URL names no wheel of {requirement.name}")
    if len(requirement.extras) > _MOST_EXTRAS:
        raise ValueError(f"`{shown}` has {len(requirement.extras)} extras: there are {_MOST_EXTRAS} at most")
    if requirement.marker is not None and (fault := _fault_in_marker(requirement.marker)):
        raise ValueError(f"`{shown}` has a marker that says neither yes nor no: {fault}")
    return requirement


def _with_sum(row: str) -> str:
    """Return a row that names a wheel by its URL and one sha256 as PEP 508 has it; empty for another row."""
    found = _WHEEL.fullmatch(row)
    if found is None or bool(found["own"]) == bool(found["beside"]):
        return ""
    sha256 = (found["own"] or found["beside"]).lower()
    return f"{found['name']}@ {found['url']}#sha256={sha256}{found['marker'] or ''}"


def _names_place(shown: str) -> ValueError:
    at_url = "a wheel that no index has is written `NAME @ URL --hash=sha256:…`"
    return ValueError(f"`{shown}` names a place, whose content no lock holds to a sha256: {_MEANS}; {at_url}")


def _fault_in_marker(marker: Marker) -> str:
    """Return why it cannot be evaluated, on any platform and for any extra; empty if it can."""
    from packaging.markers import UndefinedComparison, UndefinedEnvironmentName

    try:
        marker_holds(marker, "3.11.0", "x86_64-manylinux_2_28")
    except (UndefinedEnvironmentName, KeyError) as error:  # KeyError: older versions of packaging
        return f"there is no {error}"
    except UndefinedComparison:
        return "`~=` compares versions"
    return ""


def checked(row: str) -> str:
    """Return a requirement as uv and pip may read it. Raise ValueError as `read_requirement` does."""
    return str(read_requirement(row))


def checked_all(rows: Iterable[str]) -> tuple[str, ...]:
    """Return each as `checked`. Raise ValueError with one line for each that is refused, and for more rows than a
    package or a file may have.
    """
    found, faults = list[str](), list[str]()
    for number, row in enumerate(rows):
        if number == MOST_ROWS:
            raise ValueError(f"more than {MOST_ROWS} requirements")
        try:
            found.append(checked(row))
        except ValueError as error:
            faults.append(str(error))
    if faults:
        raise ValueError("\n".join(shortened(faults, MOST_FAULTS)))
    return tuple(found)
