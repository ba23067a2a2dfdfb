"""wheels.lock and its sidecar: the text of a lock.

`wheels.lock` is the lock, for us and for pip and uv (`--require-hashes -r wheels.lock`). It names no host. The sidecar has the file
names, without which nothing can be fetched, and what else the index tells.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import InvalidVersion, Version
from pydantic import ValidationError

from envmgr.backends.wheels.lock import WheelsLock
from envmgr.catalog.locks import lock_json, lock_text
from envmgr.errors import InputError
from envmgr.system.files import pretty_json, sha256_bytes
from envmgr.system.yamlfile import reason_of
from envmgr.wheels.lock import LockedFile, LockedWheel
from envmgr.wording import one_line

LOCK_NAME = "wheels.lock"
SIDECAR_NAME = "wheels.lock.json"
_BUILT_WITH = "#   "
_FOR = "# recipe "
_AGAIN = "lock again: `envmgr lock` writes both"


def lock_texts(lock: WheelsLock) -> dict[str, str]:
    """File name -> text, in the order of writing: the lock itself last, because the sidecar names its sha256."""
    text = _text(lock)
    content = lock.model_dump(mode="json", exclude_none=True, exclude={"wheels": {"__all__": {"url"}}})
    if not lock.sdists:  # locks without any are as they were before there were any
        del content["sdists"]
    sidecar = {"schema": 1, "lock_sha256": sha256_bytes(text.encode()), **content}
    return {SIDECAR_NAME: pretty_json(sidecar), LOCK_NAME: text}


def _text(lock: WheelsLock) -> str:
    head = [
        "# Written by `envmgr lock`; pip and uv read it. Change recipe.yaml and lock again instead of editing.",
        f"{_FOR}{lock.recipe_digest}, python {lock.python}, {lock.platform}",
    ]
    rows = [row for each in lock.packages for row in _rows(each)]
    return "\n".join([*head, *rows]) + "\n"


def _rows(each: LockedFile) -> list[str]:
    """Its line, below what a source is built with: pip and uv take that for comments."""
    own = f"{each.name}=={each.version} --hash=sha256:{each.sha256}"
    if isinstance(each, LockedWheel):
        return [own]
    patches = [f"{_BUILT_WITH}{patch.file} sha256:{patch.sha256}" for patch in each.patches]
    return [
        f"# {each.name} is built from {each.file}, with",
        *(_BUILT_WITH + row for wheel in each.build for row in _rows(wheel)),
        *patches,
        own,
    ]


def read_lock(folder: Path) -> tuple[WheelsLock, str]:
    """The lock beside a recipe, and the sha256 of its text.

    Raises:
        EnvmgrError: `lock-missing`; InputError: `lock-invalid`, `lock-unhashed` with file and line.
    """
    path, beside = folder / LOCK_NAME, folder / SIDECAR_NAME
    text = lock_text(path)
    _require_hashes(path, text)
    try:
        data = lock_json(beside)
    except FileNotFoundError:
        raise InputError("lock-invalid", f"{beside} is missing: {LOCK_NAME} has no file names", hint=_AGAIN) from None
    if not isinstance(data, dict) or data.get("schema") != 1:
        found = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise InputError("lock-invalid", f"{beside} has schema {found}, this envmgr knows 1", hint="use a newer envmgr")
    fields = {key: value for key, value in data.items() if key not in ("schema", "lock_sha256")}
    try:
        lock = WheelsLock.model_validate(fields)
    except ValidationError as error:
        lines = [one_line(f"{'.'.join(map(str, e['loc']))}: {reason_of(e)}") for e in error.errors(include_url=False)]
        raise InputError("lock-invalid", f"{beside} is no lock of wheels", context=lines[:10], hint=_AGAIN) from None
    _require_agreement(lock, path, text)
    return lock, sha256_bytes(text.encode())


def _require_hashes(path: Path, text: str) -> None:
    """Invariant 5: a wheel without sha256 would be installed unchecked; with two, by chance."""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not re.match(r"[A-Za-z0-9._-]+==\S+", line):
            raise InputError(
                "lock-invalid",
                f"{path}:{number}: not `name==version --hash=sha256:…`",
                context=one_line(line),
                hint=_AGAIN,
            )
        if not re.fullmatch(r"\S+ --hash=sha256:[0-9a-f]{64}", line):
            raise InputError("lock-unhashed", f"{path}:{number}: not one sha256", context=one_line(line), hint=_AGAIN)


def _require_agreement(lock: WheelsLock, path: Path, text: str) -> None:
    """The lock is what people review; the sidecar may know more of a wheel, but nothing else."""
    rows, own = ([line for line in each.split("\n") if _counts(line)] for each in (text, _text(lock)))
    if rows != own:
        here, there = {*rows}, {*own}
        lines = [one_line(row) for row in (*(r for r in rows if r not in there), *(r for r in own if r not in here))]
        raise InputError(
            "lock-invalid",
            f"{path} and {SIDECAR_NAME} name different wheels",
            context=(lines or ["the same rows, in another order or more than once"])[:10],
            hint=f"one of the two was changed: {_AGAIN}",
        )
    _require_once([each.name for each in lock.packages], path)
    for sdist in lock.sdists:
        _require_once([each.name for each in sdist.build], path)
    for each in (file for group in lock.groups for file in group):
        if not _is_of(each):
            raise InputError(
                "lock-invalid",
                f"{path.parent / SIDECAR_NAME}: {each.file} is no file of {each.name} {each.version}",
                hint=_AGAIN,
            )


def _require_once(names: Iterable[str], path: Path) -> None:
    """Of one name one file is looked at. InputError `lock-invalid`."""
    if twice := sorted(name for name, times in Counter(names).items() if times > 1):
        raise InputError("lock-invalid", f"{path}: {twice[0]} is locked twice", context=", ".join(twice), hint=_AGAIN)


def _is_of(each: LockedFile) -> bool:
    read = parse_wheel_filename if isinstance(each, LockedWheel) else parse_sdist_filename
    try:
        name, version = read(each.file)[:2]
        return name == each.name and version == Version(each.version)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return False


def _counts(line: str) -> bool:
    return bool(line) and (not line.startswith("#") or line.startswith((_BUILT_WITH, _FOR)))
