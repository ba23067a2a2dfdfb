"""The text of a lock: conda-lock.yml (v1), its sidecar, and wheels.lock if there are wheels beside the packages.

Source: conda-lock 4, `lockfile/v1/models.py`.

The YAML file is the lock, for envmgr and for conda-lock, micromamba and pixi. The sidecar has what its format cannot
hold of the channels' records; it is used only while it belongs to the same YAML.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pydantic import Field, ValidationError

from envmgr.backends.conda.lock import ChannelSource, CondaLock, LockedPackage, is_sha256, row_parts
from envmgr.catalog.locks import foreign_lock, lock_json, lock_text
from envmgr.errors import InputError
from envmgr.system.files import pretty_json, sha256_bytes
from envmgr.system.models import FrozenModel, require_format
from envmgr.system.yamlfile import dump_yaml, parse_yaml
from envmgr.wheels.lockfile import WHEELS_LOCK, read_wheels, wheels_text
from envmgr.wording import one_line

LOCK_NAME = "conda-lock.yml"
SIDECAR_NAME = "conda-lock.records.json"
_FORMAT = 1  # of the sidecar


class _Record(FrozenModel):
    """The facts that the channel states of a package, and conda-lock.yml cannot hold."""

    constrains: tuple[str, ...] = ()
    size: int | None = None
    timestamp: int | None = None
    license: str | None = None
    python_site_packages_path: str | None = Field(default=None, pattern=r"^lib/python3\.\d+t?/site-packages$")


class _Sidecar(FrozenModel):
    """`packages` maps names; a package of which there is nothing to say has no row."""

    schema_: int = Field(default=_FORMAT, alias="schema")
    lock_sha256: str
    packages: Mapping[str, _Record]


def require_own_channels(packages: Sequence[LockedPackage], allowed: Collection[str], lock: Path) -> None:
    """Require that each package comes from a place in `allowed`: URLs without a trailing slash. Raises InputError
    `lock-foreign`.
    """
    for each in packages:
        if each.channel not in allowed:
            raise foreign_lock(lock, each.name, each.url, allowed)


def lock_texts(lock: CondaLock) -> dict[str, str]:
    """Return file name -> text, in the order of writing: the lock itself last, because the sidecar names its sha256.

    The same lock gives the same bytes.
    """
    head = (
        "# Written by `envmgr lock`; `conda-lock`, micromamba and pixi read it. Change recipe.yaml and lock "
        "again instead of editing.\n"
    )
    text = head + dump_yaml(document_of(lock), width=200)
    keys = _Record.model_fields
    records = {p.name: {key: value for key, value in p.to_json().items() if key in keys} for p in lock.packages}
    sidecar = {
        "schema": _FORMAT,
        "lock_sha256": sha256_bytes(text.encode()),
        "packages": {name: record for name, record in records.items() if record},
    }
    wheels = {} if lock.added is None else {WHEELS_LOCK: wheels_text(lock.added)}
    return {**wheels, SIDECAR_NAME: pretty_json(sidecar), LOCK_NAME: text}


def read_lock(folder: Path) -> tuple[CondaLock, str]:
    """Return the lock next to a recipe, and the sha256 of its text.

    Raises:
        EnvmgrError: `lock-missing`; InputError: `lock-invalid`, `lock-unhashed` with file, line and package.
    """
    text, wheels, sidecar = lock_text(folder / LOCK_NAME), "", None
    if os.path.lexists(folder / WHEELS_LOCK):
        wheels = lock_text(folder / WHEELS_LOCK)
    with suppress(FileNotFoundError):
        sidecar = lock_json(folder / SIDECAR_NAME)
    lock = lock_of(text, sidecar, wheels, folder)
    return lock, sha256_bytes((text if lock.added is None else text + wheels).encode())


def lock_of(text: str, sidecar: Any, wheels: str, folder: Path) -> CondaLock:
    """Return the lock that its files say. A sidecar of another text counts for nothing, nor do wheels of another recipe.
    `folder` is where the files are, for messages.

    Raises:
        EnvmgrError: `format-unknown`; InputError: `lock-invalid`, `lock-unhashed`.
    """
    path, beside = folder / LOCK_NAME, folder / SIDECAR_NAME
    lock = _from_yaml(path, text, parse_yaml(text, path))
    if isinstance(sidecar, dict):
        require_format(sidecar, _FORMAT, beside)
        if sidecar.get("lock_sha256") == sha256_bytes(text.encode()):
            lock = replace(lock, packages=tuple(_with_records(lock.packages, sidecar, beside)))
        else:
            lock = replace(lock, edited=True)
    if wheels:
        added = read_wheels(wheels, folder / WHEELS_LOCK)[0]
        lock = replace(lock, added=added if added.recipe == lock.recipe_digest else None)
    return lock


def _with_records(packages: Iterable[LockedPackage], sidecar: Any, path: Path) -> list[LockedPackage]:
    try:
        known = _Sidecar.model_validate(sidecar).packages
        return [replace(p, **known[p.name].model_dump()) if p.name in known else p for p in packages]
    except ValidationError as error:
        fault = f"{path} lacks or misnames a field"
        raise InputError("lock-invalid", fault, context=one_line(error)) from None


def document_of(lock: CondaLock) -> dict[str, Any]:
    """Return the content of conda-lock.yml for the lock."""
    custom = {"envmgr_recipe_digest": lock.recipe_digest}
    for channel in lock.channels:
        if channel.snapshot is not None:
            parts = [f"{subdir} {digest}" for subdir, digest in sorted(channel.snapshot.items())]
            custom[f"envmgr_snapshot_{channel.name}"] = "; ".join([*([channel.note] if channel.note else []), *parts])
    return {
        "version": 1,
        "metadata": {
            "content_hash": {lock.platform: lock.recipe_digest},
            "channels": [{"url": c.url, "used_env_vars": []} for c in lock.channels],
            "platforms": [lock.platform],
            "sources": ["recipe.yaml"],
            "custom_metadata": custom,
        },
        "package": [
            {
                "name": p.name,
                "version": p.version,
                "manager": "conda",
                "platform": lock.platform,
                "dependencies": _dependencies(p.depends),
                "url": p.url,
                "hash": {"md5": p.md5, "sha256": p.sha256} if p.md5 else {"sha256": p.sha256},
                "build": p.build,
                "category": "main",
                "optional": False,
            }
            for p in sorted(lock.packages, key=lambda p: p.name)
        ],
    }


def _dependencies(depends: Iterable[str]) -> dict[str, str]:
    """Return the dependencies by name, sorted.

    `["python >=3.9", "python <4", "mpi 1.0 mpich"]` gives `{"mpi": "1.0 mpich", "python": ">=3.9,<4"}`. The format has
    one value per name. If a name comes twice, both versions apply, and the last build string is kept.
    """
    versions: dict[str, list[str]] = {}
    builds: dict[str, str] = {}
    for text in depends:
        name, version, build = row_parts(text)
        known = versions.setdefault(name, [])
        if version and version not in known:
            known.append(version)
        if build:
            builds[name] = build
    result = {}
    for name, found in sorted(versions.items()):
        strict = [v for v in found if v != "*"] or found
        # In a version spec `,` binds more tightly than `|`.
        joined = ",".join(f"({v})" if "|" in v and len(strict) > 1 else v for v in strict)
        result[name] = f"{joined or '*'} {builds[name]}" if name in builds else joined
    return result


def _from_yaml(path: Path, text: str, data: Any) -> CondaLock:
    if not isinstance(data, dict) or data.get("version") != 1:
        found = data.get("version") if isinstance(data, dict) else type(data).__name__
        raise InputError("lock-invalid", f"{path} is not a conda-lock v1 file", context=f"version: {found}")
    metadata = _get(data, "metadata", dict, str(path))
    platforms = _get(metadata, "platforms", list, f"{path}: metadata")
    if len(platforms) != 1:
        raise InputError("lock-invalid", f"{path}: one platform is expected", context=f"platforms: {platforms}")
    packages = []
    for index, item in enumerate(_get(data, "package", list, str(path))):
        where = f"{path}: package[{index}]"
        if not isinstance(item, dict):
            raise InputError("lock-invalid", f"{where} is not a mapping")
        name, manager, platform = str(item.get("name")), item.get("manager"), item.get("platform")
        if manager != "conda":
            hint = "`pip` in recipe.yaml asks for wheels, and `envmgr lock` writes them into wheels.lock" * (
                manager == "pip"
            )
            fault = f"{where}: manager `{manager}` is not supported"
            raise InputError("lock-invalid", fault, context=name, hint=hint)
        if platform != platforms[0]:
            fault = f"{where}: platform `{platform}` in a lock for {platforms[0]}"
            raise InputError("lock-invalid", fault, context=name)
        packages.append(package_of(item, where))
        _require_sha256(packages[-1], path, text)
    names = [p.name for p in packages]
    if twice := sorted(n for n, times in Counter(names).items() if times > 1):
        raise InputError("lock-invalid", f"{path}: {twice[0]} is locked twice", context=", ".join(twice))
    custom = metadata.get("custom_metadata") or {}
    return CondaLock(
        platform=str(platforms[0]),
        recipe_digest=str(custom.get("envmgr_recipe_digest", "")),
        packages=tuple(sorted(packages, key=lambda p: p.name)),
        channels=tuple(ChannelSource(str(c.get("url")), str(c.get("url"))) for c in metadata.get("channels", [])),
    )


def _require_sha256(package: LockedPackage, path: Path, text: str) -> None:
    """Raise InputError for a package that would be linked unchecked (invariant 5), with its line in `text`."""
    if not is_sha256(package.sha256):
        line = next(
            (number for number, row in enumerate(text.split("\n"), 1) if row.strip() == f"url: {package.url}"), 1
        )
        raise InputError(
            "lock-unhashed",
            f"{path}:{line}: {package.name} {package.version} has no sha256",
            context=package.url,
            hint="lock again from a channel whose repodata has sha256 sums",
        )


def package_of(item: Mapping[str, Any], where: str) -> LockedPackage:
    url = _get(item, "url", str, where)
    name, version = _get(item, "name", str, where), _get(item, "version", str, where)
    match = re.fullmatch(r".+/[a-z0-9-]+/(?P<stem>[^/]+)\.(conda|tar\.bz2)", unquote(url))
    # The URL decides what is fetched, so it must be of the package that people review.
    if not match or not match["stem"].startswith(f"{name}-{version}-"):
        raise InputError("lock-invalid", f"{where}: the URL does not name {name} {version}", context=url)
    hashes = _get(item, "hash", dict, where)
    depends = _get({"dependencies": item.get("dependencies") or {}}, "dependencies", dict, where)
    return LockedPackage(
        name=name,
        version=version,
        build=match["stem"].removeprefix(f"{name}-{version}-"),
        url=url,
        md5=str(hashes.get("md5") or ""),
        sha256=str(hashes.get("sha256") or ""),
        depends=tuple(f"{k} {v}".strip() for k, v in depends.items()),
    )


def _get(data: Mapping[str, Any], key: str, kind: type[Any], where: str) -> Any:
    value = data.get(key)
    if not isinstance(value, kind):
        raise InputError(
            "lock-invalid", f"{where}: `{key}` must be a {kind.__name__}", context=f"found {type(value).__name__}"
        )
    return value
