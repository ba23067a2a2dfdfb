"""The plan of a build or publish: which installs are missing, and which entries change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from envmgr.catalog.names import Entry, variable_name
from envmgr.errors import EnvmgrError
from envmgr.modules.families import find_families, member_of
from envmgr.modules.render import fingerprint, templates_digest
from envmgr.modules.spec import ModuleSpec
from envmgr.modules.statements import ModulePolicies
from envmgr.publish.records import GenerationRecord, PublishedEntry, PublishedSpec, published_spec
from envmgr.store.manifest import InstallFacts
from envmgr.store.prefix import Prefix


@dataclass(frozen=True, slots=True)
class NewModule:
    """An entry for the next generation. `lock` is the sha256 of its lock's text."""

    spec: ModuleSpec
    facts: InstallFacts
    lock: str


@dataclass(frozen=True, slots=True)
class Change:
    """The change that a publish makes to whatever is current by then.

    `fresh` are installs that were made just now, by their paths relative to the prefix: their manifests differ from
    those that earlier generations name. With `anew`, a generation is made also where nothing else changes. Nothing of
    `same` changes, but it has to be there. With `candidate`, it does not become current: see `publish.candidates`.
    """

    add: Mapping[str, NewModule]
    remove: tuple[str, ...]
    reason: str
    fresh: frozenset[str] = frozenset()
    anew: bool = False
    same: frozenset[str] = frozenset()
    candidate: bool = False

    def onto(self, current: Collection[str]) -> Change:
        """Return what is left to do if `current` are the entries: what others have made of `same` stays."""
        kept = {name: module for name, module in self.add.items() if name not in self.same or name not in current}
        return replace(self, add=kept)


def apply_change(old: Mapping[str, Any], change: Change) -> dict[str, PublishedSpec]:
    """Return the raw specs of `current` (entry -> spec) with the change applied, sorted by entry."""
    kept = {k: published_spec(v) for k, v in old.items() if k not in change.add and k not in change.remove}
    added = {k: PublishedSpec(spec=m.spec, facts=m.facts) for k, m in change.add.items()}
    # A name has one default: the newest word counts.
    moved = {m.spec.name for m in change.add.values() if m.spec.default}
    for entry, item in kept.items():
        if item.spec.default and item.spec.name in moved:
            kept[entry] = item.model_copy(update={"spec": item.spec.model_copy(update={"default": False})})
    return dict(sorted((kept | added).items()))


def published_entries(
    merged: Mapping[str, PublishedSpec],
    old: Mapping[str, Any],
    record: GenerationRecord | None,
    change: Change,
    policies: ModulePolicies,
    templates: Path,
    prefix: Prefix,
) -> dict[str, PublishedEntry]:
    """Return the record's rows for `merged`; unchanged entries keep the lock with which they were published."""
    digest = templates_digest(templates)
    families = find_families({name: member_of(item.spec) for name, item in merged.items()})
    entries = {}
    for name, item in merged.items():
        spec = item.spec
        previous = record.entries.get(name) if record and name in old else None
        entries[name] = PublishedEntry(
            digest=spec.digest,
            path=prefix.named(spec.root),
            lock=change.add[name].lock if name in change.add else (previous.lock if previous else ""),
            fingerprint=fingerprint(spec, policies, digest, families[name]),
            needs=item.facts.needs,
            not_ours=spec.outside.path if spec.outside else "",
        )
    return entries


def changed_entries(
    entries: Mapping[str, PublishedEntry], manifests: Mapping[str, str], record: GenerationRecord | None
) -> set[str]:
    """Return entries that are new, gone, or differ from the record in install or module, or in the manifest of an
    install.
    """
    before = record.entries if record else {}
    known = record.manifests if record else {}
    changed = {name for name in {*entries, *before} if entries.get(name) != before.get(name)}
    anew = {path for path, sha256 in manifests.items() if known.get(path, sha256) != sha256}
    return changed | {name for name, entry in entries.items() if not anew.isdisjoint(entry.paths)}


def marked(names: Iterable[str], before: Collection[str], after: Collection[str]) -> tuple[str, ...]:
    """Return changed entries as people read them: `+ entry` came, `- entry` went, `~ entry` is another one."""
    marks = {name: "+" if name not in before else "-" if name not in after else "~" for name in sorted(names)}
    return tuple(f"{mark} {name}" for name, mark in marks.items())


def check_dependencies(depends: Mapping[str, tuple[str, ...]]) -> None:
    """Raise EnvmgrError `dependency-missing` if an entry of a generation (entry -> what it depends on) lacks one."""
    missing = [f"{entry} depends on {d}" for entry, needed in depends.items() for d in needed if d not in depends]
    if missing:
        raise EnvmgrError(
            "dependency-missing",
            "a published entry would lose what it depends on",
            context=missing,
            hint="remove the dependents too, or keep the dependency",
        )


def refuse_name_clash(merged: Mapping[str, PublishedSpec]) -> None:
    """Refuse two names in one tree that differ by case, or that set the same variables."""
    owners: dict[str, str] = {}
    for item in merged.values():
        other = owners.setdefault(variable_name(item.spec.name), item.spec.name)
        if other != item.spec.name:
            raise EnvmgrError(
                "names-clash",
                f"{other} and {item.spec.name} cannot both be published",
                context=f"both set {variable_name(other)}_ROOT",
                hint="rename one of them, or remove the one that is published",
            )


def with_dependents(changed: set[str], merged: Mapping[str, PublishedSpec]) -> dict[str, ModuleSpec]:
    """Return the changed entries and all that load one of them, in the order of `merged`: all of them are tested
    again.
    """
    affected = set(changed)
    while more := {k for k, i in merged.items() if k not in affected and affected.intersection(i.spec.depends)}:
        affected |= more
    return {k: item.spec for k, item in merged.items() if k in affected}


Build = Literal["build", "reuse"]
Publish = Literal["new", "changed", "module", "unchanged"]


@dataclass(frozen=True, slots=True)
class PlannedEntry:
    """One wanted entry. `path` is relative to the prefix, as are `missing`, the installs to make for it, its own or
    those that it stands on.

    `download` and `installed` are bytes, None if unknown. `fingerprint` is of the module as it would be rendered now;
    None while the install's facts are unknown.
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
    """The step of one entry: its install, and its module in the next generation."""

    planned: PlannedEntry
    build: Build
    publish: Publish


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """The plan of a build. `rerender`: templates or policies changed, so every module of `current` is written again."""

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


def make_plan(planned: Sequence[PlannedEntry], current: GenerationRecord | None, render: str) -> BuildPlan:
    """Return the plan of a build. `render` is the digest of templates and policies as they are now."""
    steps = tuple(PlanStep(c, "build" if c.missing else "reuse", _publish(c, current)) for c in planned)
    # A generation without entries has no module that new templates would change.
    rerender = current is not None and bool(current.entries) and current.render != render
    return BuildPlan(steps, rerender, current.number if current else None)


def _publish(planned: PlannedEntry, current: GenerationRecord | None) -> Publish:
    published = current.entries.get(str(planned.entry)) if current else None
    if published is None:
        return "new"
    if published.digest != planned.digest:
        return "changed"
    if planned.fingerprint is not None and planned.fingerprint != published.fingerprint:
        return "module"
    return "unchanged"


def state_of(
    published: bool, outdated: bool, built: bool, locked: bool
) -> Literal["declared", "locked", "built", "published", "outdated"]:
    """Return one word for the state of an entry; `outdated` is published, but its recipe has changed since."""
    if published:
        return "outdated" if outdated else "published"
    if built:
        return "built"
    return "locked" if locked else "declared"
