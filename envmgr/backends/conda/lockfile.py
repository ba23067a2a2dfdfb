"""The text of a lock: conda-lock.yml (v1) and its sidecar. Source: conda-lock 4, `lockfile/v1/models.py`.

The YAML file is the lock, for envmgr and for conda-lock, micromamba and pixi. Its format loses `constrains`, build
strings of dependencies, sizes and `noarch`. The sidecar keeps the full records; it is used only while it belongs to the
same YAML.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pydantic import ValidationError

from envmgr.backends.conda.lock import ChannelSource, CondaLock, LockedPackage, is_sha256, row_parts, unhashed
from envmgr.catalog.locks import foreign_lock, lock_json, lock_text
from envmgr.errors import EnvmgrError, InputError
from envmgr.system.files import pretty_json, sha256_bytes
from envmgr.system.models import require_format
from envmgr.system.yamlfile import dump_yaml, parse_yaml
from envmgr.wording import one_line

if TYPE_CHECKING:
    from envmgr.wheels.locked import AddedWheels

_SITE_PACKAGES = re.compile(r"lib/python3\.\d+t?/site-packages")


def require_agreement(document: Any, own: Mapping[str, Any], sidecar: Path, lock: str) -> None:
    """Raise InputError `lock-invalid` for the first difference between a lock and its sidecar.

    `document` is the lock as it was read and checked; `own` is what the sidecar would write into it. Both have the
    packages in the order of the file: conda's by name, then wheels.
    """
    found, wanted = document["package"], own["package"]
    if len(found) != len(wanted):
        raise _differs(f"{sidecar} has {len(wanted)} packages, {lock} has {len(found)}", ())
    for there, here in zip(found, wanted, strict=True):
        name = here.get("name")
        if there.get("name") != name:
            said = there.get("name")
            raise _differs(f"{sidecar} names {name} where {lock} has {said}", (f"{name} {here.get('url')}",))
        for key in dict.fromkeys((*_flat(here), *_flat(there))):
            if (value := _flat(here).get(key)) != _flat(there).get(key):
                raise _differs(f"{sidecar} names another {key} of {name} than {lock}", (str(value),))
    for key in dict.fromkeys((*own, *document)):
        if key != "package" and own.get(key) != document.get(key):
            raise _differs(f"{sidecar} and {lock} have another `{key}`", (str(own.get(key)), str(document.get(key))))


def require_possible(packages: Sequence[LockedPackage], platform: str, sidecar: Path) -> None:
    """Check the sidecar's fields that the lock lacks and the installer uses. Raises InputError `lock-invalid`."""
    for each in packages:
        if each.subdir not in (platform, "noarch"):
            raise _differs(f"{sidecar}: {each.name} is for {each.subdir}, the lock for {platform}", ())
        if each.noarch is not None and (each.subdir != "noarch" or each.noarch not in ("generic", "python")):
            raise _differs(f"{sidecar}: {each.name} cannot be noarch: {each.noarch}", (each.url,))
        place = each.python_site_packages_path
        if place is not None and (each.name != "python" or not _SITE_PACKAGES.fullmatch(place)):
            raise _differs(f"{sidecar}: {each.name} cannot have packages in {place}", (each.url,))


def require_same_wheels(here: AddedWheels | None, there: AddedWheels | None, sidecar: Path, lock: str) -> None:
    """Require the same Python, wheel files and indexes, which the lock holds as one URL. Raises InputError
    `lock-invalid`.
    """
    if here is None or there is None:
        return  # a difference in this was already reported
    if here.python != there.python:
        raise _differs(f"{sidecar} has wheels for Python {here.python}, {lock} for {there.python}", ())
    for ours, theirs in zip(here.wheels, there.wheels, strict=True):
        for key in ("file", "index"):
            if getattr(ours, key) != getattr(theirs, key):
                raise _differs(f"{sidecar} names another {key} of {ours.name} than {lock}", (getattr(ours, key),))


def require_own_channels(packages: Sequence[LockedPackage], allowed: Collection[str], lock: Path) -> None:
    """Require that each package comes from a place in `allowed`: URLs without a trailing slash. Raises InputError
    `lock-foreign`.
    """
    for each in packages:
        if each.channel not in allowed:
            raise foreign_lock(lock, each.name, each.url, allowed)


def _flat(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the item's fields; those of `hash` by their own names."""
    return {**{key: value for key, value in item.items() if key != "hash"}, **item["hash"]}


def _differs(message: str, context: Iterable[str]) -> InputError:
    return InputError("lock-invalid", message, context=tuple(context), hint="one of the two was changed: lock again")


LOCK_NAME = "conda-lock.yml"
SIDECAR_NAME = "conda-lock.records.json"
_FORMAT = 1  # of the sidecar


def lock_texts(lock: CondaLock) -> dict[str, str]:
    """Return file name -> text, in the order of writing: the lock itself last, because the sidecar names its sha256.

    The same lock gives the same bytes.
    """
    text = _yaml_text(lock)
    sidecar = {
        "schema": _FORMAT,
        "lock_sha256": sha256_bytes(text.encode()),
        "recipe_digest": lock.recipe_digest,
        "platform": lock.platform,
        "solver": lock.solver,
        "virtual_packages": dict(lock.virtual_packages),
        "channels": [asdict(channel) for channel in lock.channels],
        "packages": [p.to_json() for p in _sorted(lock)],
    }
    if lock.added is not None:
        sidecar["added"] = lock.added.model_dump(mode="json", exclude_none=True)
    return {SIDECAR_NAME: pretty_json(sidecar), LOCK_NAME: text}


def read_lock(folder: Path) -> tuple[CondaLock, str]:
    """Return the lock next to a recipe, and the sha256 of its text.

    Raises:
        EnvmgrError: `lock-missing`; InputError: `lock-invalid`, `lock-unhashed` with file, line and package.
    """
    path = folder / LOCK_NAME
    text = lock_text(path)
    digest = sha256_bytes(text.encode())
    document = parse_yaml(text, path)
    lock = _from_yaml(path, text, document)
    _require_hashes(lock, path, text)
    known = _from_sidecar(folder / SIDECAR_NAME, digest)
    if known is None:
        return lock, digest
    require_agreement(document, document_of(known), folder / SIDECAR_NAME, LOCK_NAME)
    require_possible(known.packages, known.platform, folder / SIDECAR_NAME)
    require_same_wheels(known.added, lock.added, folder / SIDECAR_NAME, LOCK_NAME)
    return known, digest


def edited_by_hand(folder: Path) -> str:
    """Return the reason why a lock differs from what `envmgr lock` wrote; empty if it does not.

    It differs if its sidecar belongs to another text.
    """
    sidecar = folder / SIDECAR_NAME
    try:
        recorded = lock_json(sidecar).get("lock_sha256")
    except (OSError, EnvmgrError, AttributeError):
        return ""  # without a sidecar the lock stands for itself
    if recorded == sha256_bytes(lock_text(folder / LOCK_NAME).encode()):
        return ""
    return f"{folder / LOCK_NAME} was changed after it was written: {SIDECAR_NAME} belongs to another text"


def document_of(lock: CondaLock) -> dict[str, Any]:
    """Return the content of conda-lock.yml for the lock."""
    custom = {"envmgr_recipe_digest": lock.recipe_digest}
    for channel in lock.channels:
        if channel.kind == "snapshot":
            parts = [f"{subdir} {digest}" for subdir, digest in sorted(channel.repodata.items())]
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
            for p in _sorted(lock)
        ]
        + _pip_items(lock),
    }


def _yaml_text(lock: CondaLock) -> str:
    head = (
        "# Written by `envmgr lock`; `conda-lock`, micromamba and pixi read it. Change recipe.yaml and lock "
        "again instead of editing.\n"
    )
    return head + dump_yaml(document_of(lock), width=200)


def _pip_items(lock: CondaLock) -> list[dict[str, Any]]:
    if lock.added is None:
        return []
    from envmgr.backends.conda.pip import item_of

    return [item_of(wheel, lock.platform, lock.added) for wheel in lock.added.wheels]


def _sorted(lock: CondaLock) -> list[LockedPackage]:
    return sorted(lock.packages, key=lambda p: p.name)


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


def _from_sidecar(path: Path, lock_sha256: str) -> CondaLock | None:
    """Return the full records; None if there is no sidecar, or if it belongs to another text of the lock."""
    try:
        data = lock_json(path)
    except FileNotFoundError:
        return None
    if not isinstance(data, dict):
        return None
    require_format(data, _FORMAT, path)
    if data.get("lock_sha256") != lock_sha256:
        return None
    try:
        added = None
        if "added" in data:
            from envmgr.wheels.locked import AddedWheels  # slow to load, and most locks have no wheels

            added = AddedWheels.model_validate(data["added"])
        return CondaLock(
            platform=data["platform"],
            recipe_digest=data["recipe_digest"],
            packages=tuple(LockedPackage.from_json(p) for p in data["packages"]),
            channels=tuple(ChannelSource(**c) for c in data["channels"]),
            virtual_packages=data["virtual_packages"],
            solver=data["solver"],
            added=added,
        )
    except (KeyError, TypeError, ValidationError) as error:
        raise InputError("lock-invalid", f"{path} lacks or misnames a field", context=one_line(error)) from None


def _from_yaml(path: Path, text: str, data: Any) -> CondaLock:
    if not isinstance(data, dict) or data.get("version") != 1:
        found = data.get("version") if isinstance(data, dict) else type(data).__name__
        raise InputError("lock-invalid", f"{path} is not a conda-lock v1 file", context=f"version: {found}")
    metadata = _get(data, "metadata", dict, str(path))
    platforms = _get(metadata, "platforms", list, f"{path}: metadata")
    if len(platforms) != 1:
        raise InputError("lock-invalid", f"{path}: one platform is expected", context=f"platforms: {platforms}")
    packages, wheels = [], []
    for index, item in enumerate(_get(data, "package", list, str(path))):
        where = f"{path}: package[{index}]"
        if not isinstance(item, dict):
            raise InputError("lock-invalid", f"{where} is not a mapping")
        name, manager, platform = str(item.get("name")), item.get("manager"), item.get("platform")
        if manager not in ("conda", "pip"):
            raise InputError("lock-invalid", f"{where}: manager `{manager}` is not supported", context=name)
        if platform != platforms[0]:
            fault = f"{where}: platform `{platform}` in a lock for {platforms[0]}"
            raise InputError("lock-invalid", fault, context=name)
        if manager == "conda":
            try:
                packages.append(package_of(item, where))
            except TypeError as error:
                raise InputError("lock-invalid", f"{where}: {error}") from None
        else:
            wheels.append((where, item))
    names = [p.name for p in packages]
    if twice := sorted(n for n, times in Counter(names).items() if times > 1):
        raise InputError("lock-invalid", f"{path}: {twice[0]} is locked twice", context=", ".join(twice))
    added = None
    if wheels:
        from envmgr.backends.conda.pip import read_items

        added = read_items(wheels, path, text, packages)
    custom = metadata.get("custom_metadata") or {}
    return CondaLock(
        platform=str(platforms[0]),
        recipe_digest=str(custom.get("envmgr_recipe_digest", "")),
        packages=tuple(sorted(packages, key=lambda p: p.name)),
        channels=tuple(
            ChannelSource(str(c.get("url")), str(c.get("url")), "channel", {}) for c in metadata.get("channels", [])
        ),
        virtual_packages={},
        solver="unknown",
        added=added,
    )


def package_of(item: Mapping[str, Any], where: str) -> LockedPackage:
    url = _get(item, "url", str, where)
    name, version = _get(item, "name", str, where), _get(item, "version", str, where)
    match = re.fullmatch(r".+/(?P<subdir>[a-z0-9-]+)/(?P<stem>[^/]+)\.(conda|tar\.bz2)", unquote(url))
    # The URL decides what is fetched, so it must be of the package that people review.
    if not match or not match["stem"].startswith(f"{name}-{version}-"):
        raise InputError("lock-invalid", f"{where}: the URL does not name {name} {version}", context=url)
    build = match["stem"].removeprefix(f"{name}-{version}-")
    # The format has no build number; build strings end in it by convention.
    number = re.search(r"_([0-9]{1,9})$", build)
    hashes = _get(item, "hash", dict, where)
    depends = _get({"dependencies": item.get("dependencies") or {}}, "dependencies", dict, where)
    return LockedPackage(
        name=name,
        version=version,
        build=build,
        build_number=int(number[1]) if number else 0,
        subdir=match["subdir"],
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


def _require_hashes(lock: CondaLock, path: Path, text: str) -> None:
    """Require a sha256 for every package (invariant 5); a record without one would be linked unchecked."""
    for package in lock.packages:
        if not is_sha256(package.sha256):
            hint = "lock again from a channel whose repodata has sha256 sums"
            raise unhashed(f"{package.name} {package.version}", package.url, path, text, hint)
