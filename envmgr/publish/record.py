"""The record of a generation, as data. Staging and publishing are in generations.py."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.spec import ModuleSpec
from envmgr.store.manifest import InstallFacts
from envmgr.store.prefix import Prefix
from envmgr.system.reading import GENERATION, read_bytes, read_json, why_unreadable

RECORD = "generation.json"
SPECS = "modules.json"
ABANDONED = "abandoned.json"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PublishedEntry(_Model):
    """One entry of a generation. `path` is relative to the prefix, as are `needs`, the installs that it stands on; `lock` is
    the sha256 of the lock's text.
    """

    digest: str
    path: str
    lock: str
    fingerprint: str
    needs: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """All installs that must be there for it."""
        return (self.path, *self.needs)


class GenerationRecord(_Model):
    """`generation.json`: written last, so a generation without it is not complete.

    `files` maps a path below the generation to the sha256 of its text; `render` digests templates and policies.
    """

    schema_version: int = 1
    number: int
    parent: int | None
    created: str
    user: str
    host: str
    reason: str
    tools: dict[str, str]
    render: str
    entries: dict[str, PublishedEntry]
    files: dict[str, str]


class PublishedSpec(_Model):
    """What a later generation needs to render an entry again: the module's data, and the install's part of it."""

    spec: ModuleSpec
    facts: InstallFacts


def current_number(prefix: Prefix) -> int | None:
    """The number that `current` names; None before the first publish."""
    try:
        target = str(prefix.current.readlink())
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise EnvmgrError("prefix-unreadable", f"cannot read {prefix.current}", context=str(error)) from None
        raise EnvmgrError(
            "current-damaged", f"{prefix.current} is not a link", context=f"it is a {_kind(prefix.current)}",
            hint="move it away, then `envmgr rollback NUMBER` makes it anew; `envmgr history` shows the numbers",
        ) from None  # fmt: skip
    match = re.fullmatch(r"generations/([0-9]{4,})", target)
    if not match or not (prefix.generation(int(match[1])) / RECORD).is_file():
        raise EnvmgrError(
            "current-damaged", f"{prefix.current} names no complete generation", context=f"it points to {target}",
            hint="`envmgr rollback NUMBER` makes it anew; `envmgr history` shows the numbers",
        )  # fmt: skip
    return int(match[1])


def _kind(path: Path) -> str:
    return "folder" if path.is_dir() else "file"


def read_record(prefix: Prefix, number: int) -> GenerationRecord:
    """Raises EnvmgrError `no-generation` for one that is not there or not complete."""
    path = prefix.generation(number) / RECORD
    try:
        return GenerationRecord.model_validate_json(read_bytes(path, GENERATION))
    except FileNotFoundError:
        raise EnvmgrError(
            "no-generation", f"there is no generation {number}", context=str(path), hint="`envmgr history` lists them"
        ) from None
    except (OSError, InputError, ValueError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> EnvmgrError:
    return EnvmgrError("generation-damaged", f"{path} cannot be read", context=why_unreadable(error))


def read_current(prefix: Prefix) -> GenerationRecord | None:
    number = current_number(prefix)
    return None if number is None else read_record(prefix, number)


def read_specs(prefix: Prefix, number: int) -> dict[str, Any]:
    """entry -> the raw `PublishedSpec`; parse the ones needed with `published_spec`."""
    path = prefix.generation(number) / SPECS
    try:
        data: dict[str, Any] = read_json(path, GENERATION)
    except (OSError, InputError, ValueError) as error:
        raise _damaged(path, error) from None
    return data


def published_spec(raw: Mapping[str, Any]) -> PublishedSpec:
    return PublishedSpec.model_validate(raw)


def with_own_pythons(specs: Mapping[str, PublishedSpec], prefix: Prefix) -> dict[str, PublishedSpec]:
    """The same, with what an earlier envmgr did not record: whether the install itself has a Python."""
    return {
        name: item
        if item.spec.own_python is not None
        else item.model_copy(update={"spec": _looked_at(item.spec, prefix)})
        for name, item in specs.items()
    }


def _looked_at(spec: ModuleSpec, prefix: Prefix) -> ModuleSpec:
    install = prefix.install_at("/".join(Path(spec.root).parts[-3:]))
    return spec.model_copy(update={"own_python": install.has_python()})


def generation_numbers(prefix: Prefix) -> list[int]:
    """Every number ever taken (complete, under way or abandoned), ascending."""
    if not prefix.generations.is_dir():
        return []
    return sorted(int(p.name) for p in prefix.generations.iterdir() if re.fullmatch(r"[0-9]{4,}", p.name))


def complete_numbers(prefix: Prefix) -> list[int]:
    return [n for n in generation_numbers(prefix) if (prefix.generation(n) / RECORD).is_file()]
