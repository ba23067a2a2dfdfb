"""Exact packages of conda from a file of another tool, with the wheels beside them, as contents."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from envmgr.backends.conda.lock import is_sha256
from envmgr.exchange import Dropped, Parsed, ReadFile
from envmgr.exchange.checks import NO_INDEX, row_of
from envmgr.wheels.lockfile import LockedRow, wheel_version
from envmgr.wording import and_more, masked

if TYPE_CHECKING:
    from envmgr.backends.conda.lock import LockedPackage

_FEW = 5


@dataclass(slots=True)
class FoundPackages:
    """The content that was found so far. `lacks` is what keeps its packages from being kept exactly."""

    given: ReadFile
    packages: list[LockedPackage] = field(default_factory=list)
    wheels: list[LockedRow] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    left: list[Dropped] = field(default_factory=list)
    lacks: str = ""

    def leave(self, text: object, why: str, line: int = 0) -> None:
        self.left.append(self.given.left(text, why, line))

    def add_wheel(self, name: str, version: str, url: str, sha256: str, shown: str) -> None:
        """Add the wheel at a URL, which the file has as `shown`, and the row that asks for it."""
        own = canonicalize_name(name)
        if (there := wheel_version(own, url)) and is_sha256(sha256):
            self.wheels.append(LockedRow(name=own, version=there, sha256=sha256, url=url))
        else:
            self.lacks = f"{name} is no wheel with a sha256"
        row = row_of(self.given, f"{name}=={version}", shown, "" if there else f"{name}: {NO_INDEX}")
        if isinstance(row, str):
            self.rows.append(row)
        else:
            self.left.append(row)

    def contents(self) -> Parsed:
        """Return each package as a spec. Raise InputError `import-invalid`."""
        given, packages = self.given, sorted(self.packages, key=lambda each: each.name)
        if twice := [name for name, times in Counter(each.name for each in packages).items() if times > 1]:
            raise given.invalid(f"{twice[0]} is in it twice for {given.subdir}")
        if not packages:
            raise given.invalid(f"it has no packages of conda for {given.subdir}")
        secret = [each for each in packages if masked(each.url) != each.url]
        if unhashed := [each.name for each in packages if not is_sha256(each.sha256)]:
            self.lacks = f"there is no sha256 of {and_more(unhashed, _FEW)}"
        if secret:
            self.lacks = f"the URL of {secret[0].name} holds a name, a password or a token"
        places = [each for each, _ in Counter(each.channel for each in packages).most_common()]
        return Parsed(
            left=(*self.left, *(given.left(each.url, "a recipe and a lock hold no secret") for each in secret)),
            channels=tuple(place for place in places if masked(place) == place),
            specs=tuple(f"{each.name} {each.version} {each.build}" for each in packages),
            rows=tuple(self.rows),
            packages=tuple(packages),
            wheels=tuple(self.wheels),
            lacks=self.lacks,
        )
