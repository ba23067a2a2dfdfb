"""The common part of all locks: the digest of the input that a lock answers, errors, and the difference between two
locks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from envmgr.catalog.names import Entry, catalog_of
from envmgr.errors import EnvmgrError, InputError
from envmgr.report import Lines
from envmgr.system.files import canonical_json, sha256_bytes, shipped
from envmgr.system.invisible import LINES, require_visible
from envmgr.system.models import require_format
from envmgr.system.untrusted_files import LOCK, MOST_LOCKED, read_file_text, read_json, require_visible_values
from envmgr.system.yamlfile import parse_yaml, reason_of
from envmgr.wording import one_line

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class LockChange:
    """One difference of two locks; `old` or `new` is empty for an added or removed package."""

    name: str
    old: str
    new: str


def recipe_digest(backend: str, recipe_input: Mapping[str, Any]) -> str:
    """Return the sha256 of the versioned canonical form of what a lock answers: only the backend and its input."""
    # No other part of the recipe: a new help text or test must not make a lock stale.
    return sha256_bytes(canonical_json({"schema": 1, "backend": backend, "input": recipe_input}))


def missing_lock(path: Path) -> EnvmgrError:
    """Return the error for a missing lock. `path` is where it should be, next to its recipe."""
    entry = f"{path.parent.parent.name}/{path.parent.name}"
    own = not path.is_relative_to(shipped("recipes"))
    return EnvmgrError(
        "lock-missing",
        f"{entry} has no lock" if own else f"{entry} ships without a lock",
        context=str(path),
        hint=f"run `{'' if own else f'envmgr copy {entry} && '}envmgr lock {entry}` and commit the result",
    )


class StaleLock(EnvmgrError):  # noqa: N818 - the name states what it is
    """A lock that no longer answers its recipe; `packages` are those that it has."""

    packages: Mapping[str, str]


def stale_lock(
    entry: Entry, path: Path, packages: Mapping[str, str], differing: Sequence[str], why: str = "", more: str = ""
) -> StaleLock:
    """Return the error for a stale lock with these packages; `differing` says where it differs, `more` ends the hint."""
    error = StaleLock(
        "lock-stale",
        f"{path} {why or 'does not match recipe.yaml'}",
        context=differing,
        hint=f"run `envmgr lock {entry}` and commit the result{more}",
    )
    error.packages = packages
    return error


def require_answer(entry: Entry, path: Path, packages: Mapping[str, str], wanted: str, recorded: str) -> None:
    """Raise StaleLock if the recipe's digest, `wanted`, is not the one that the lock answers."""
    if wanted != recorded:
        said = f"recipe digest {wanted[:8]}…, lock records {recorded[:8] or 'none'}…"
        raise stale_lock(entry, path, packages, [said])


def foreign_lock(lock: Path, name: str, url: str, allowed: Collection[str]) -> InputError:
    """Return the error for a package that would come from an unreviewed place."""
    return InputError(
        "lock-foreign",
        f"{lock}: {name} comes from no channel or index that is allowed",
        context=[url, *(f"allowed: {place}" for place in sorted(allowed))],
        hint="add the channel or index to the recipe, or the place to the site's mirrors of it, if it is "
        "yours; else lock again",
    )


def lock_text(path: Path) -> str:
    """Return the text of a lock. Raises EnvmgrError `lock-missing`, InputError as `read_file_text`."""
    if not os.path.lexists(path):
        raise missing_lock(path)
    return read_file_text(path, LOCK, tree=catalog_of(path.parent))


def lock_json(path: Path) -> Any:
    """Return the content of a JSON file beside a lock.

    Raises:
        FileNotFoundError: there is no such file.
        InputError: as `read_file_text`, and `lock-invalid`.
    """
    try:
        return read_json(path, LOCK, tree=catalog_of(path.parent), most=MOST_LOCKED)
    except ValueError as error:
        raise InputError("lock-invalid", f"{path} is not JSON", context=one_line(error)) from None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError("file-unreadable", f"cannot read lock {path}", context=one_line(error)) from None


def require_lock_visible(text: str, name: str) -> None:
    """Raise InputError `text-invisible` if a reader of a lock's file cannot see all of it: its text comes from an index
    or a channel.
    """
    require_visible(text, name, also=LINES)
    if name.endswith(".json"):
        require_visible_values(json.loads(text), Path(name), LINES)
    elif name.endswith((".yml", ".yaml")):
        parse_yaml(text, name)


def read_lock_file(path: Path, model: type[Model], *, of: str, known: int) -> tuple[Model, str]:
    """Return a lock in YAML, and the sha256 of its text; `of` names its backend in messages.

    `known` is the number of the format, which the lock has as its `version`.

    Raises:
        EnvmgrError: `lock-missing`, `format-unknown`; InputError: `lock-invalid`.
    """
    text = lock_text(path)
    return _lock_of(text, path, model, of, known), sha256_bytes(text.encode())


@lru_cache(maxsize=256)  # what many others stand on is read with each of them
def _lock_of(text: str, path: Path, model: type[Model], of: str, known: int) -> Model:
    data = parse_yaml(text, path)
    if isinstance(data, dict):
        require_format(data, known, path, "version")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        lines = [
            one_line(".".join(str(part) for part in e["loc"]) + (": " if e["loc"] else "") + reason_of(e))
            for e in error.errors(include_url=False)
        ]
        raise InputError(
            "lock-invalid",
            f"{path} is not a lock of {of}",
            context=lines[:10],
            hint=f"run `envmgr lock {path.parent.parent.name}/{path.parent.name}`",
        ) from None


def diff_packages(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[LockChange, ...]:
    """Return the changes between two `describe` results, sorted by name."""
    changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return tuple(LockChange(name, old.get(name, ""), new.get(name, "")) for name in changed)


def change_lines(changes: Iterable[LockChange]) -> Lines:
    """Yield changes of packages as text: `+` came, `-` went, `~` is another version."""
    for change in changes:
        if not change.old:
            yield f"  + {change.name} {change.new}"
        elif not change.new:
            yield f"  - {change.name} {change.old}"
        else:
            yield f"  ~ {change.name} {change.old} -> {change.new}"
