"""Exact packages of conda from a file of another tool, as contents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from envmgr.backends.conda.lock import is_sha256
from envmgr.exchange import Contents, Given, Left
from envmgr.wording import and_more, masked

if TYPE_CHECKING:
    from envmgr.backends.conda.lock import LockedPackage
    from envmgr.wheels.locked import LockedWheel
    from envmgr.wheels.requirements import HashedRow

_FEW = 5


def contents_of(
    given: Given,
    packages: Sequence[LockedPackage],
    wheels: Iterable[LockedWheel],
    left: Iterable[Left],
    rows: Iterable[HashedRow] = (),
    lacks: str = "",
) -> Contents:
    """Return contents with each package as a spec, and what keeps them from being kept exactly.

    `rows` ask for the wheels. Raise InputError `import-invalid`.
    """
    if twice := sorted(name for name, times in Counter(each.name for each in packages).items() if times > 1):
        raise given.invalid(f"{twice[0]} is in it twice for {given.subdir}")
    if not packages:
        raise given.invalid(f"it has no packages of conda for {given.subdir}")
    secret = [each for each in packages if masked(each.url) != each.url]
    unhashed = [each.name for each in packages if not is_sha256(each.sha256)]
    if unhashed:
        lacks = f"there is no sha256 of {and_more(unhashed, _FEW)}"
    if secret:
        lacks = f"the URL of {secret[0].name} holds a name, a password or a token"
    packages = sorted(packages, key=lambda each: each.name)
    places = [each for each, _ in Counter(each.channel for each in packages).most_common()]
    return Contents(
        left=(*left, *(given.left(each.url, "a recipe and a lock hold no secret") for each in secret)),
        channels=tuple(place for place in places if masked(place) == place),
        specs=tuple(f"{each.name} {each.version} {each.build}" for each in packages),
        rows=tuple(rows),
        packages=tuple(packages),
        wheels=tuple(wheels),
        lacks=lacks,
    )
