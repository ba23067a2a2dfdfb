"""Random entries with dependencies and families, and what real Lmod does with them in a random session."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envmgr.modules.families import Families, find_clashes, find_families, member_of
from envmgr.modules.spec import ModuleSpec
from tests.helpers.lmod_shell import make_tree, op, spec

NAMED = (None, None, None, (), ("python",), ("mpi",), ("mpi", "python"))


@dataclass(frozen=True, slots=True)
class Step:
    """A command of the session, what Lmod said to it, its status, and what was loaded after it."""

    command: str
    said: str
    status: int
    loaded: tuple[str, ...]


def random_entries(rng: random.Random, count: int) -> list[ModuleSpec]:
    """Each depends on some of those before it; some have two versions."""
    entries: list[ModuleSpec] = []
    for number in range(count):
        second = entries and rng.random() < 0.2
        name = f"{rng.choice(entries).name}/{number}" if second else f"e{number}/{number}"
        below = [e.entry for e in rng.sample(entries, k=min(len(entries), rng.choice((0, 1, 1, 2, 3))))]
        entries.append(
            spec(
                name,
                op("prepend", "PATH", f"/store/{name}/bin"),
                depends=tuple(below),
                families=rng.choice(NAMED),
                own_python=rng.random() < 0.6,
                root=f"/store/{name}",
            )
        )
    return entries


def random_session(rng: random.Random, entries: Sequence[ModuleSpec], length: int) -> list[str]:
    """Each entry loaded by itself, then anything a user may do."""
    commands = [f"load {e.entry}" for e in entries for _ in (0, 1)]
    commands = [word for command in commands[::2] for word in ("purge", command)]
    for _ in range(length):
        one, two = (rng.choice(entries).entry for _ in (0, 1))
        commands.append(
            rng.choice((f"load {one}", f"load {one}", f"load {one} {two}", f"unload {one}", f"swap {one} {two}"))
        )
    return commands


def play(folder: Path, entries: Sequence[ModuleSpec], commands: Sequence[str]) -> list[Step]:
    """The session in one bash with the entries' modules."""
    tree = make_tree(folder, *entries)
    lines = [f"echo @ >&2; module {c}; echo $?:$LOADEDMODULES" for c in commands]
    done = tree.shell("\n".join(lines))
    said, told = done.stderr.split("@\n")[1:], done.stdout.splitlines()
    steps = []
    for command, text, line in zip(commands, said, told, strict=True):
        status, *loaded = line.split(":")
        steps.append(Step(command, text, int(status), tuple(filter(None, loaded))))
    return steps


def faults(entries: Sequence[ModuleSpec], steps: Sequence[Step]) -> Iterator[str]:
    """What must never be, whatever the recipes say: two members of a family, or a load that does not come to an end; and where
    `check` has nothing against the entries, an entry that does not come with all that it depends on.
    """
    members = {e.entry: member_of(e) for e in entries}
    families = find_families(members)
    certain = {c.entry for c in find_clashes(members) if c.certain}
    clean = not certain
    for before, step in zip(("", *(s.command for s in steps)), steps, strict=False):
        yield from _two_of_a_family(step, families)
        swaps = len(re.findall("automatically replacing", step.said))
        if swaps > 2 * len(entries) or "overflow" in step.said:
            yield f"{step.command}: {swaps} modules were replaced: {step.said[:300]}"
        if clean and "error" in step.said and "swap" not in step.command:
            yield f"{step.command}: {step.said[:300]}"
        if clean and before == "purge":
            entry = step.command.removeprefix("load ")
            lacks = {entry, *_closure(entry, members)} - set(step.loaded)
            if lacks or step.status:
                yield f"{step.command}: status {step.status}, not loaded: {lacks}: {step.said[:300]}"


def _two_of_a_family(step: Step, families: Mapping[str, Families]) -> Iterator[str]:
    holders: dict[str, list[str]] = {}
    for entry in step.loaded:
        for family in families[entry].own:
            holders.setdefault(family, []).append(entry)
    for family, entries in holders.items():
        if len(entries) > 1:
            yield f"{step.command}: {' and '.join(entries)} are loaded, both of family {family}"


def _closure(entry: str, members: Mapping[str, object]) -> set[str]:
    found: set[str] = set()
    waiting = [entry]
    while waiting:
        for each in members[waiting.pop()].depends:  # type: ignore[attr-defined]
            if each not in found:
                found.add(each)
                waiting.append(each)
    return found
