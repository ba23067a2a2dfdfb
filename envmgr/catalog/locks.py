"""What all locks share: the digest of the input that a lock answers, and what changed between two of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envmgr.system.files import canonical_json, sha256_bytes


@dataclass(frozen=True, slots=True)
class LockChange:
    """One difference of two locks; `old` or `new` is empty for an added or removed package."""

    name: str
    old: str
    new: str


def recipe_digest(backend: str, recipe_input: Mapping[str, Any]) -> str:
    """sha256 over the versioned canonical form of what a lock answers: the backend and its input, nothing else."""
    return sha256_bytes(canonical_json({"schema": 1, "backend": backend, "input": recipe_input}))


def diff_packages(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[LockChange, ...]:
    """What changed between two `describe` results, sorted by name."""
    return tuple(
        LockChange(name, old.get(name, ""), new.get(name, ""))
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    )
