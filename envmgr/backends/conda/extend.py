"""A conda recipe and its lock with the wheels of a user added: its very packages, and nothing is solved."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from envmgr.backends.conda.lock import CondaLock
from envmgr.backends.conda.lockfile import lock_texts
from envmgr.backends.conda.models import CondaInput
from envmgr.backends.conda.pip import require_python
from envmgr.errors import InputError
from envmgr.wheels.answers import needed_of
from envmgr.wheels.difference import Difference, unasked
from envmgr.wheels.locked import AddedWheels


def extended(
    lock: CondaLock, old: CondaInput, said: Mapping[str, Any], more: Difference, root: Path
) -> tuple[dict[str, Any], Mapping[str, str]]:
    """Return the new `input` and the texts of its lock; `said` is `old` as the recipe says it, `root` the install.

    Raises:
        InputError: `not-requestable`, if a wheel would replace a package of conda's.
    """
    python, own = require_python(lock.packages), {} if lock.added is None else lock.added.by_name
    if kept := sorted(more.replaced - own.keys()):
        raise InputError(
            "not-requestable",
            f"{kept[0]} comes as a package of conda's, which no wheel of a recipe replaces",
            hint=f"ask the administrators for an entry with another {kept[0]} among its `specs`",
        )
    wheels = more.joined(own.values())
    given = {key: value for key, value in said.items() if key != "exclude_newer"}
    given |= {"pip": more.rows(old.pip), "indexes": more.indexes(old.indexes if old.pip else ())}
    question = CondaInput.model_validate(given).question()
    added = AddedWheels(python=python, platform=question.platform, uv=more.wheels.uv, wheels=wheels)
    given["pip"] += unasked(question, added.parts, python)
    wanted = CondaInput.model_validate(given)
    needed = needed_of(wanted.question(), added.parts, python) - added.parts.keys()
    added = added.model_copy(update={"assumed": dict(_brought(needed, root, python))})
    return given, lock_texts(dataclasses.replace(lock, recipe_digest=wanted.digest(), added=added))


def _brought(names: set[str], root: Path, python: str) -> Iterator[tuple[str, str]]:
    """Yield each name of a distribution with `name version` of the package that brings it."""
    from envmgr.backends.conda.wheels_worker import installed_distributions, owner_of

    there = installed_distributions(root / "lib" / f"python{'.'.join(python.split('.')[:2])}" / "site-packages")
    for name in sorted(names & there.keys()):
        version, folder = there[name]
        yield name, f"{owner_of(root, f'/{folder}').partition(' ')[0]} {version}"
