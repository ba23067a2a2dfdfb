"""The differences between what a job had and what there is now: entries, defaults, user environments, drivers, scripts."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from envmgr.catalog.locks import LockChange, diff_packages
from envmgr.commands.why_then import CLOCKS, local
from envmgr.errors import EnvmgrError
from envmgr.modules.spec import ModuleSpec
from envmgr.nodes.past_jobs import options_of
from envmgr.nodes.sets import expand
from envmgr.nodes.slurm import slurm_names
from envmgr.people.environments import installs_of
from envmgr.people.lock import lock_of
from envmgr.people.places import UserPlaces
from envmgr.publish.records import GenerationRecord, published_spec, raw_defaults, read_record, read_specs
from envmgr.store.manifest import read_facts, read_provenance
from envmgr.store.node_facts import FleetFacts, Seen
from envmgr.store.prefix import SHORT, Install, Prefix

Kind = Literal["gone", "install", "user", "default", "module", "driver", "gpus", "options", "script", "added"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The likeliest cause first: what stops a job, what it computes with, what it runs on, how it was asked for."""
# What of a module can change what a program does; a new description cannot.
_FELT = ("environment", "depends", "conflicts", "families", "functions", "on_unload", "pip", "root")
_UNKNOWN = "which of its packages changed is not known: the earlier install was removed"


@dataclass(frozen=True, slots=True)
class WhyChange:
    """One difference: `what` is an entry, a name, a node or an option, `old` and `new` what it was and is; either may be
    empty. `packages` are those of an install, and `note` is the rest in words.
    """

    kind: Kind
    what: str
    old: str
    new: str
    packages: tuple[LockChange, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Tree:
    """A generation that is still there."""

    prefix: Prefix
    record: GenerationRecord

    @cached_property
    def _raw(self) -> dict[str, Any]:
        return read_specs(self.prefix, self.record.number)

    @cached_property
    def _defaults(self) -> dict[str, str]:
        return raw_defaults(self._raw)

    def spec(self, name: str) -> ModuleSpec | None:
        raw = self._raw.get(name)
        return None if raw is None else published_spec(raw).spec

    def default(self, name: str) -> str:
        """Return the entry that `module load NAME` gives; empty for no such name."""
        return self._defaults.get(name, "")

    def loaded_with(self, name: str) -> list[str]:
        """Return an entry and all that its module loads."""
        found: list[str] = []
        waiting = [name]
        while waiting:
            each = waiting.pop(0)
            spec = self.spec(each)
            if each not in found and spec is not None:
                found.append(each)
                waiting += spec.depends
        return found


def tree_of(prefix: Prefix, number: int | None) -> Tree | None:
    """Return a generation; None if it was removed, or cannot be read."""
    try:
        return None if number is None else Tree(prefix, read_record(prefix, number))
    except EnvmgrError:
        return None


def packages_of(prefix: Prefix, paths: Iterable[str]) -> dict[str, str] | None:
    """Return name -> `version build` of all packages in installs; None if one of them is not there any more."""
    found: dict[str, str] = {}
    try:
        for path in paths:
            for name, version in dict(read_provenance(prefix.install_at(path).manifest).get("packages") or {}).items():
                found.setdefault(name, str(version))
    except (EnvmgrError, ValueError):
        return None
    return found


def _paths(prefix: Prefix, name: str, digest: str) -> list[str]:
    """Return the installs of an entry by its digest; empty if they are gone."""
    path = f"store/{name}-{digest[:SHORT]}"
    try:
        return [path, *read_facts(prefix.install_at(path)).needs]
    except (EnvmgrError, ValueError):
        return []


def entry_change(name: str, digest: str, then: Tree | None, now: Tree) -> WhyChange | None:
    """Return what became of one entry since the generation `then`; of one that was removed, `digest` is all that is
    known of the entry. None if nothing that a program feels has changed.
    """
    before = None if then is None else then.record.entries.get(name)
    after = now.record.entries.get(name)
    digest = before.digest if before is not None else digest
    old, new = (None if tree is None else tree.spec(name) for tree in (then, now))
    if after is None or new is None:
        said = old.deprecated.message if old is not None and old.deprecated is not None else ""
        left = now.default(name.partition("/")[0])
        return WhyChange("gone", name, digest[:SHORT], "", note=said or (f"there is {left}" if left else ""))
    if not digest:
        return None if before is None and then is None else WhyChange("added", name, "", after.digest[:SHORT])
    if digest[:SHORT] != after.digest[:SHORT] or (before is not None and before.paths != after.paths):
        paths = _paths(now.prefix, name, digest) if before is None else before.paths
        had = packages_of(now.prefix, paths) if paths else None
        has = packages_of(now.prefix, after.paths)
        changed = diff_packages(had, has) if had is not None and has is not None else ()
        note = "" if changed else (_UNKNOWN if had is None else "its packages have the same versions")
        return WhyChange("install", name, digest[:SHORT], after.digest[:SHORT], changed, note)
    if old is None or not (felt := [field for field in _FELT if getattr(old, field) != getattr(new, field)]):
        return None
    return WhyChange("module", name, "", "", note=_module_note(old, new, felt))


def _module_note(old: ModuleSpec, new: ModuleSpec, felt: Sequence[str]) -> str:
    ops = ({op.name: f"{op.kind} {op.value}" for op in spec.environment} for spec in (old, new))
    said = [f"{row.name}: {row.old or 'not set'} -> {row.new or 'not set'}" for row in diff_packages(*ops)]
    loads = ({name: name for name in spec.depends} for spec in (old, new))
    said += [f"does not load {row.old}" if row.old else f"loads {row.new}" for row in diff_packages(*loads)]
    return "; ".join(said) or ", ".join(felt)


def default_change(name: str, then: Tree, now: Tree) -> WhyChange | None:
    """Return whether `module load NAME` gives another entry now."""
    old, new = then.default(name), now.default(name)
    # The last version of a name that goes is `gone`, and the first one is `added`.
    return WhyChange("default", name, old, new) if old and new and old != new else None


def user_change(
    prefix: Prefix, places: UserPlaces, name: str, digest: str, before: float | None
) -> WhyChange | str | None:
    """Return what became of the user environment `name`: of the one with this digest, or else of the newest one that was
    there at the time `before`; a text if what it was then is not known.
    """
    what, now = f"user/{name}", places.install(name)
    if now is None and not digest:
        return f"{what}: you have none, and nothing says that there was one"
    if now is None:
        return WhyChange("gone", what, digest, "", note="`envmgr user list` shows your environments")
    had = [each for each in installs_of(now.prefix, name) if each.digest[:SHORT] == digest]
    if not digest and before is not None:
        made = {each: each.manifest.stat().st_mtime for each in installs_of(now.prefix, name)}
        had = sorted((each for each, at in made.items() if at <= before), key=lambda each: made[each])[-1:]
        digest = had[0].digest[:SHORT] if had else ""
    if not digest:
        return f"{what}: what it was then is not known"
    if digest == now.digest[:SHORT]:
        return None
    old, new = (_user_packages(prefix, each) for each in (had[0] if had else None, now))
    changed = diff_packages(old, new) if old and new else ()
    return WhyChange("user", what, digest, now.digest[:SHORT], changed, "" if changed else _UNKNOWN)


def _user_packages(prefix: Prefix, install: Install | None) -> dict[str, str] | None:
    """Return the packages of an environment and of the entry below it."""
    try:
        if install is None:
            return None
        root = str(read_provenance(install.manifest).get("root", ""))
        below = packages_of(prefix, [prefix.named(root)]) if root.count("/") > 2 else None
        return {**(below or {}), **lock_of(install).versions}
    except EnvmgrError:
        return None


def hardware_changes(
    facts: FleetFacts, nodes: Iterable[str], at: float, logged: Mapping[str, str]
) -> Iterator[WhyChange | str]:
    """Yield what audits, and the job's own log, saw change of drivers and GPUs since the time `at`; as a text, which node
    was not looked at, and why. `logged` is node -> driver.
    """
    for node, name in _named(facts, nodes).items():
        rows = facts.rows_of(name)
        seen = rows[-1] if rows and rows[-1].time > at else None
        if seen is None:
            yield f"driver and GPUs of {node}: no audit has seen it since"
            continue
        then, between = _row_at(rows, at)
        now = f"{seen.facts.driver or 'none'}"
        on = f"seen by the audit of {local(seen.time)}"
        if node in logged:
            if logged[node] != seen.facts.driver:
                yield WhyChange("driver", node, logged[node], now, note=f"by the job's log; {on}")
        elif then is None:
            yield f"driver of {node}: what it was then is not recorded"
        elif then.facts.driver != seen.facts.driver:
            yield WhyChange("driver", node, then.facts.driver or "none", now, note=_seen(then, between, on))
        if then is None:
            yield f"GPUs of {node}: what they were then is not recorded"
        elif _gpus(then) != _gpus(seen):
            yield WhyChange("gpus", node, _gpus(then) or "none", _gpus(seen) or "none", note=_seen(then, between, on))


def _row_at(rows: Sequence[Seen], at: float) -> tuple[Seen | None, bool]:
    """Return what a node had at a time by the audits around it, and whether it changed between the two; None if none
    came before.
    """
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        if row.since is not None and at < row.since - CLOCKS:
            return None, False
        if at <= row.time:
            return (None if row.since is None else row), False
        if after is not None and after.since is not None and at < after.since:
            return row, True
    return None, False


def _seen(then: Seen, between: bool, on: str) -> str:
    last = f"last seen by the audit of {local(then.time)}"
    return (
        f"{last}; the job ran between the two audits, so it may have had either; {on}" if between else f"{last}; {on}"
    )


def _gpus(row: Seen) -> str:
    return ", ".join(gpu.name or gpu.arch or gpu.vendor for gpu in row.facts.gpus)


def _named(facts: FleetFacts, nodes: Iterable[str]) -> dict[str, str]:
    """Return node, as Slurm calls it -> its name in the audits; the same name if they have never seen it."""
    wanted = [each for node in nodes for each in expand(node)]
    return dict(zip(wanted, wanted, strict=True)) | slurm_names(facts.by_node(), wanted)


def script_changes(old: str, new: str, path: str) -> Iterator[WhyChange]:
    """Yield the options of sbatch that differ in a script, and how many other lines do."""
    before, after = (_options(text) for text in (old, new))
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield WhyChange("options", name, before.get(name, ""), after.get(name, ""), note=f"in {path}")
    changed = [*difflib.unified_diff(_lines(old), _lines(new), n=0, lineterm="")][2:]
    if lines := [line for line in changed if not line.startswith("@@")]:
        count = sum(line.startswith("+") for line in lines)
        yield WhyChange("script", path, "", "", note=f"+{count} -{len(lines) - count} lines: {lines[0]}")


def _lines(script: str) -> list[str]:
    return [line.rstrip() for line in script.strip().splitlines() if not line.startswith("#SBATCH")]


def _options(script: str) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for word in options_of(script):
        if word.startswith("-"):
            name, _, value = word.partition("=")
            found[name] = value
        elif name:
            found[name] = f"{found[name]} {word}".strip()
    return found
