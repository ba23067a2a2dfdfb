"""The plan: a pure diff of locks against the store, and of modules against `current`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from envmgr.catalog.names import Entry
from envmgr.publish.record import GenerationRecord

Build = Literal["build", "reuse"]
Publish = Literal["new", "changed", "module", "unchanged"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One wanted entry. `path` is relative to the prefix, as are `missing`, the installs to make for it, its own or those that
    it stands on; `download` and `installed` are bytes, None when unknown.

    `fingerprint` is of the module as it would be rendered now; None while the install's facts are not known.
    """

    entry: Entry
    digest: str
    path: str
    missing: tuple[str, ...]
    fingerprint: str | None
    packages: Mapping[str, str]
    download: int | None
    installed: int | None


@dataclass(frozen=True, slots=True)
class PlanStep:
    """What happens to one entry: its install, and its module in the next generation."""

    candidate: Candidate
    build: Build
    publish: Publish


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """`rerender`: templates or policies changed, so every module of `current` is written anew."""

    steps: tuple[PlanStep, ...]
    rerender: bool
    current: int | None

    @property
    def to_build(self) -> tuple[PlanStep, ...]:
        return tuple(s for s in self.steps if s.build == "build")

    @property
    def to_publish(self) -> tuple[PlanStep, ...]:
        return tuple(s for s in self.steps if s.publish != "unchanged")

    @property
    def publishes(self) -> bool:
        return self.rerender or bool(self.to_publish)

    @property
    def nothing_to_do(self) -> bool:
        return not self.to_build and not self.publishes


def make_plan(candidates: Sequence[Candidate], current: GenerationRecord | None, render: str) -> BuildPlan:
    """`render` is the digest of templates and policies as they are now."""
    steps = tuple(PlanStep(c, "build" if c.missing else "reuse", _publish(c, current)) for c in candidates)
    rerender = current is not None and bool(current.entries) and current.render != render
    return BuildPlan(steps, rerender, current.number if current else None)


def _publish(candidate: Candidate, current: GenerationRecord | None) -> Publish:
    published = current.entries.get(str(candidate.entry)) if current else None
    if published is None:
        return "new"
    if published.digest != candidate.digest:
        return "changed"
    if candidate.fingerprint is not None and candidate.fingerprint != published.fingerprint:
        return "module"
    return "unchanged"


def state_of(
    published: bool, outdated: bool, built: bool, locked: bool
) -> Literal["declared", "locked", "built", "published", "outdated"]:
    """One word for how far an entry has come; `outdated` is published, but its recipe has moved on."""
    if published:
        return "outdated" if outdated else "published"
    if built:
        return "built"
    return "locked" if locked else "declared"
