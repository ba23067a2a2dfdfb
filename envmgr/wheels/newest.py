"""Newer versions of asked packages than a lock would get: with only wheels, and beside packages that stay, uv goes back
to the last version that works, and does not say so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from packaging.utils import canonicalize_name
from packaging.version import Version

from envmgr.errors import EnvmgrError, Interrupted
from envmgr.wheels.requirements import Question
from envmgr.wheels.uv import ONLY_WHEELS


class Resolution(Protocol):
    """A resolution, as resolve.py has it: the question, the version of its Python, and uv's answers."""

    @property
    def wanted(self) -> Question: ...

    @property
    def python(self) -> str: ...

    def compile(self, options: Sequence[str], requirements: Sequence[str] | None = None) -> str: ...


def wheels_older(resolution: Resolution, versions: Mapping[str, str]) -> EnvmgrError | None:
    """Return the error `wheels-older` if `versions` has an older version of an asked package than the recipe allows."""
    if not (older := older_versions(resolution, versions)):
        return None
    target = f"Python {resolution.python} on {resolution.wanted.platform}"
    facts = [
        f"{name} has no wheel of {there} for {target} that fits: the lock would get {here}"
        for name, here, there in older
    ]
    name, here, there = older[0]
    return EnvmgrError(
        "wheels-older",
        facts[0],
        context=[*facts[1:], *_words(resolution, f"{name}=={there}")],
        hint=f"ask for `{name}=={here}` if that one is what you want; or for another Python or a later platform; or "
        "`build` what has no wheel from its source, in a recipe of wheels",
    )


def older_versions(resolution: Resolution, versions: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return each asked package of which `versions` has an older version than there is: its name, that version, and the
    newest that is asked for.
    """
    text = resolution.compile(["--no-deps", "--no-annotate"])
    rows = (row.partition("==") for row in text.split("\n") if "==" in row and not row.startswith((" ", "#")))
    newest = {canonicalize_name(re.sub(r"\[.*", "", name)): re.split(r"[ ;]", version)[0] for name, _, version in rows}
    return [
        (name, versions[name], version)
        for name, version in newest.items()
        if name in versions and Version(versions[name]) < Version(version)
    ]


def _words(resolution: Resolution, row: str) -> list[str]:
    """Return uv's own words why there is no solution with `row`."""
    try:
        resolution.compile(ONLY_WHEELS, [*resolution.wanted.requirements, row])
    except Interrupted:
        raise
    except EnvmgrError as error:
        return [line for line in error.context if not line.startswith(("asked: ", "index "))]
    return []
