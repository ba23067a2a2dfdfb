"""The lock of a wheels recipe: its data and its text.

`wheels.lock` is the lock, for envmgr and for pip and uv (`--require-hashes -r wheels.lock`). It names no host. The
sidecar has the file names, without which nothing can be fetched, and what else the index gives.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envmgr.catalog.locks import lock_json, lock_text
from envmgr.errors import InputError
from envmgr.system.files import pretty_json, sha256_bytes
from envmgr.system.models import require_format
from envmgr.system.yamlfile import reason_of
from envmgr.wheels.locked import Distribution, LockedFile, LockedSdist, LockedWheel, WheelSet
from envmgr.wording import one_line

LOCK_NAME = "wheels.lock"
SIDECAR_NAME = "wheels.lock.json"
_FORMAT = 1  # of the sidecar
_BUILT_WITH = "#   "
_FOR = "# recipe "
_AGAIN = "lock again: `envmgr lock` writes both"


class WheelsLock(WheelSet):
    """The files that a recipe resolved to. `python` is the version of the base's Python, `platform` as in the recipe.

    `sdists` are packages of it that are built from their source.
    """

    recipe_digest: str
    sdists: tuple[LockedSdist, ...] = ()

    @property
    def packages(self) -> tuple[LockedFile, ...]:
        """The files that are installed, or that become wheels first, sorted by name."""
        return tuple(sorted((*self.wheels, *self.sdists), key=lambda each: each.name))

    @property
    def versions(self) -> dict[str, str]:
        return {each.name: each.version for each in self.packages}

    @property
    def parts(self) -> dict[str, Distribution]:
        """The packages that are installed, and what the lock says that they need."""
        return {each.name: Distribution(each.version, each.requires) for each in self.packages}

    @property
    def groups(self) -> tuple[tuple[LockedFile, ...], ...]:
        return (self.wheels, *(sdist.build for sdist in self.sdists), self.sdists)


def wheels_lock_texts(lock: WheelsLock) -> dict[str, str]:
    """Map file names to texts, in the order of writing: the lock itself last, because the sidecar names its sha256."""
    text = _text(lock)
    # Without URLs, because a lock names no host.
    content = lock.model_dump(mode="json", exclude_none=True, exclude={"wheels": {"__all__": {"url"}}})
    if not lock.sdists:
        del content["sdists"]
    sidecar = {"schema": _FORMAT, "lock_sha256": sha256_bytes(text.encode()), **content}
    return {SIDECAR_NAME: pretty_json(sidecar), LOCK_NAME: text}


def _text(lock: WheelsLock) -> str:
    head = [
        "# Written by `envmgr lock`; pip and uv read it. Change recipe.yaml and lock again instead of editing.",
        f"{_FOR}{lock.recipe_digest}, python {lock.python}, {lock.platform}",
    ]
    rows = [row for each in lock.packages for row in _rows(each)]
    return "\n".join([*head, *rows]) + "\n"


def _rows(each: LockedFile) -> list[str]:
    """Return its line, below what a source is built with: pip and uv read that as comments."""
    own = f"{each.name}=={each.version} --hash=sha256:{each.sha256}"
    if isinstance(each, LockedWheel):
        return [own]
    return [
        f"# {each.name} is built from {each.file}, with",
        *(_BUILT_WITH + row for wheel in each.build for row in _rows(wheel)),
        *(f"{_BUILT_WITH}{patch.file} sha256:{patch.sha256}" for patch in each.patches),
        own,
    ]


def read_wheels_lock(folder: Path) -> tuple[WheelsLock, str]:
    """Return the lock beside a recipe, and the sha256 of its text.

    Raises:
        EnvmgrError: `lock-missing`; InputError: `lock-invalid`, `lock-unhashed` with file and line.
    """
    path, beside = folder / LOCK_NAME, folder / SIDECAR_NAME
    text = lock_text(path)
    _require_hash_of_each(path, text)
    try:
        data = lock_json(beside)
    except FileNotFoundError:
        raise _invalid(f"{beside} is missing: {LOCK_NAME} has no file names") from None
    try:
        require_format(data, _FORMAT, beside)
    except ValueError as error:
        raise _invalid(f"{beside} is no lock of wheels", [str(error)]) from None
    try:
        lock = _lock_of(data)
    except ValidationError as error:
        lines = [one_line(f"{'.'.join(map(str, e['loc']))}: {reason_of(e)}") for e in error.errors(include_url=False)]
        raise _invalid(f"{beside} is no lock of wheels", lines[:10]) from None
    _require_agreement(lock, path, text)
    return lock, sha256_bytes(text.encode())


def lock_of_sidecar(text: str) -> WheelsLock:
    """Return the lock that a sidecar of ours has. Raise ValueError for another text."""
    return _lock_of(json.loads(text))


def _lock_of(data: Mapping[str, Any]) -> WheelsLock:
    fields = {key: value for key, value in data.items() if key not in ("schema", "lock_sha256")}
    return WheelsLock.model_validate(fields)


def _require_hash_of_each(path: Path, text: str) -> None:
    """Raise InputError: a wheel without sha256 would be installed unchecked (invariant 5); with two, by chance."""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not re.match(r"[A-Za-z0-9._-]+==\S+", line):
            raise _invalid(f"{path}:{number}: not `name==version --hash=sha256:…`", one_line(line))
        if not re.fullmatch(r"\S+ --hash=sha256:[0-9a-f]{64}", line):
            raise InputError("lock-unhashed", f"{path}:{number}: not one sha256", context=one_line(line), hint=_AGAIN)


def _require_agreement(lock: WheelsLock, path: Path, text: str) -> None:
    """Raise InputError: people review the lock, and its sidecar may only know more of the same wheels."""
    rows, own = ([line for line in each.split("\n") if _counts(line)] for each in (text, _text(lock)))
    if rows != own:
        here, there = {*rows}, {*own}
        lines = [one_line(row) for row in (*(r for r in rows if r not in there), *(r for r in own if r not in here))]
        lines = lines or ["the same rows, in another order or more than once"]
        hint = f"one of the two was changed: {_AGAIN}"
        raise _invalid(f"{path} and {SIDECAR_NAME} name different wheels", lines[:10], hint=hint)
    for files in (lock.packages, *(sdist.build for sdist in lock.sdists)):
        _require_once([each.name for each in files], path)
    for each in (file for group in lock.groups for file in group):
        if not each.named_rightly:
            raise _invalid(f"{path.parent / SIDECAR_NAME}: {each.file} is no file of {each.name} {each.version}")


def _require_once(names: Iterable[str], path: Path) -> None:
    """Raise InputError `lock-invalid`: later only one file of a name is looked at."""
    if twice := sorted(name for name, times in Counter(names).items() if times > 1):
        raise _invalid(f"{path}: {twice[0]} is locked twice", ", ".join(twice))


def _counts(line: str) -> bool:
    return bool(line) and (not line.startswith("#") or line.startswith((_BUILT_WITH, _FOR)))


def _invalid(message: str, context: str | Sequence[str] = (), *, hint: str = _AGAIN) -> InputError:
    return InputError("lock-invalid", message, context=context, hint=hint)
