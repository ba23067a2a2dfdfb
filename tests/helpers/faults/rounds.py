"""A round: a verb meets a fault at one of its calls, then is run again; what of it is broken, told as a traceback, or left."""

from __future__ import annotations

import errno
import os
import random
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envmgr.catalog.site import load_site
from envmgr.report import SilentReporter
from envmgr.steps import Context
from envmgr.steps.verify import VerifyWhat, look
from envmgr.system.files import remove_tree
from envmgr.system.run import Runner
from tests.helpers.done import Done
from tests.helpers.easybuild.leftovers import nothing_left
from tests.helpers.easybuild.workshop import Workshop
from tests.helpers.faults.plots import PLOTS, Plot, lock_a_toy, publish_three
from tests.helpers.faults.shim import (
    ALL,
    CHANGE,
    FROM_HERE,
    KILL_CALLER,
    KILL_FIRST,
    ONCE,
    REMOVE,
    SPACE,
    SYNC,
    Call,
    Fault,
    Scene,
)
from tests.helpers.node_scene import USER
from tests.helpers.places import ROOT
from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import complete, no_processes, parts
from tests.helpers.waiting import DEADLINE


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: `how`, at calls of which `kinds`, with which `error`; where `tmp`, only below TMPDIR."""

    how: int
    kinds: int
    error: int = 0
    tmp: bool = False

    def at(self, number: int) -> Fault:
        return Fault(number, self.how, self.kinds, self.error)


FAULTS: dict[str, Kind] = {
    "no space, once": Kind(ONCE, SPACE | SYNC, errno.ENOSPC),
    "disk full": Kind(FROM_HERE, SPACE, errno.ENOSPC),
    "TMPDIR full": Kind(FROM_HERE, SPACE, errno.ENOSPC, tmp=True),
    "over quota": Kind(FROM_HERE, SPACE | SYNC, errno.EDQUOT),
    "I/O error, once": Kind(ONCE, ALL, errno.EIO),
    "read-only": Kind(FROM_HERE, SPACE | CHANGE | REMOVE, errno.EROFS),
    "caller killed": Kind(KILL_CALLER, ALL),
    "envmgr killed": Kind(KILL_FIRST, ALL),
}
KILLS = (KILL_CALLER, KILL_FIRST)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`call` is what was hit; empty where the run had no such call any more. The rest are lines that say what is wrong."""

    verb: str
    fault: str
    at: int
    call: str
    broken: tuple[str, ...] = ()
    tracebacks: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def bad(self) -> bool:
        return bool(self.broken or self.tracebacks or self.left)

    def __str__(self) -> str:
        lines = [f"{self.verb}: {self.fault} at {self.at}: {self.call or 'no such call'}"]
        for word in ("broken", "tracebacks", "left"):
            lines += [f"  {word}: {line}" for text in getattr(self, word) for line in text.splitlines()]
        return "\n".join(lines)


@dataclass
class Stage:
    """A sandbox that is put back to the state before a verb as often as one likes. What is not to be met by a fault is in `local`."""

    folder: Path
    mirror: str
    local: Path
    states: dict[str, Path] = field(default_factory=dict)
    easybuild: bool = False
    within: str = ""

    @property
    def root(self) -> Path:
        return self.folder / ("workshop" if self.easybuild else "box")

    @property
    def tmp(self) -> Path:
        return self.root / "tmp"

    def box(self) -> Sandbox:
        return Workshop(self.root, "") if self.easybuild else Sandbox(self.root, self.mirror)

    def set(self, verb: str) -> Sandbox:
        """The sandbox as `verb` is to find it."""
        self.easybuild, self.within = PLOTS[verb].easybuild, PLOTS[verb].within
        if verb not in self.states:
            first = self.root.name
            if first not in self.states:
                self._begin()
                self._save(first)
            self._put_back(first)
            PLOTS[verb].prepare(self.box())
            self._save(verb)
        self._put_back(verb)
        return self.box()

    @property
    def roots(self) -> list[Path]:
        """Below which calls are counted."""
        return [self.root, *([Path("/etc"), Path("/run"), Path("/var/lib")] if self.within else [])]

    def clear(self) -> None:
        for self.easybuild in (False, True):
            self.box().clear()
        remove_tree(self.folder)
        remove_tree(self.local)

    def _begin(self) -> None:
        for folder in (self.root, self.folder, self.local):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o755)  # the build user works there
        for name in ("tmp", "home"):
            (self.root / name).mkdir()
            (self.root / name).chmod(0o1777)
        box = self.box()
        if isinstance(box, Workshop):
            lock_a_toy(box)
        else:
            publish_three(box)

    def _save(self, name: str) -> None:
        self.states[name] = self.folder / f"state-{name.replace(' ', '-')}"
        subprocess.run(["cp", "-a", self.root, self.states[name]], check=True)

    def _put_back(self, name: str) -> None:
        for path in self.root.iterdir():
            remove_tree(path)
        subprocess.run(["cp", "-a", f"{self.states[name]}/.", self.root], check=True)

    def run(self, argv: Sequence[str], scene: Scene | None = None, **extra: str) -> Done:
        """To its end, with what it left running; no check of what it says."""
        box = self.box()
        given = {"TMPDIR": str(self.tmp), "HOME": str(self.root / "home"), **extra}
        shim = dict(scene.environ()) if scene else {}
        words = box.command(*argv)
        if self.within:  # what sets the scene meets no fault
            script = self.within.replace("ROOT", str(self.root))
            words = ["env", *(f"{name}={value}" for name, value in shim.items()), *words]
            words = ["unshare", *USER, "--mount", "--propagation", "private", "sh", "-c", script, "sh", *words]
            shim = {}
        done = subprocess.run(
            words,
            cwd=self.root,
            env=box.environ(**given) | shim,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=2 * DEADLINE,
            check=False,
        )
        no_processes(box)
        return Done(done.returncode, done.stdout, done.stderr)


def calls_of(stage: Stage, verb: str) -> list[Call]:
    """What `verb` does to files where nothing goes wrong."""
    stage.set(verb)
    scene = Scene.make(stage.local / "scene", stage.roots)
    done = stage.run(PLOTS[verb].argv, scene)
    assert done.code == 0, f"{verb}\n{done.stdout}{done.stderr}"
    calls = scene.calls()
    assert calls, f"{verb}: the shim saw nothing"
    return calls


def numbers_of(stage: Stage, fault: str, calls: Sequence[Call]) -> list[int]:
    """The calls, counted from 1, that a fault of this kind can hit; below TMPDIR they are counted by themselves. A kill of envmgr at its
    own call is a kill of the caller.
    """
    kind, envmgr = FAULTS[fault], calls[0].pid
    if kind.tmp:
        calls = [call for call in calls if call.path.startswith(str(stage.tmp))]
    return [
        number
        for number, call in enumerate(calls, 1)
        if call.kind & kind.kinds and not (kind.how == KILL_FIRST and call.pid == envmgr)
    ]


def play(stage: Stage, verb: str, fault: str, at: int) -> Outcome:
    plot, kind = PLOTS[verb], FAULTS[fault]
    box = stage.set(verb)
    before = _complete_ones(box)
    was = box.current()
    scene = Scene.make(stage.local / "scene", [stage.tmp] if kind.tmp else stage.roots, kind.at(at))
    done = stage.run(plot.argv, scene)
    hit = next((str(call) for call in scene.calls() if call.hit), "")
    broken, tracebacks = _judge_words(done, may_die=kind.how in KILLS), []
    tracebacks += _tracebacks("met the fault", done)
    broken += _judge_state(box, plot, before, was, whole=not plot.harmed)
    again = stage.run(plot.argv)
    tracebacks += _tracebacks("ran again", again)
    if again.code and not any(f"error[{reference}]" in again.stderr for reference in plot.over):
        broken.append(f"the next run: exit {again.code}\n{again.stdout}{again.stderr}")
    elif not plot.done(box):
        broken.append(f"the next run did not have its effect\n{again.stdout}{again.stderr}")
    broken += _judge_state(box, plot, before, was)
    broken += _verified(box)
    if broken or tracebacks:
        broken.append(f"first run: exit {done.code}\n{done.stdout}{done.stderr}")
    left = what_is_left(stage)
    return Outcome(
        verb, fault, at, hit, tuple(broken) if len(broken) > 1 or not tracebacks else (), tuple(tracebacks), tuple(left)
    )


def what_is_left(stage: Stage) -> list[str]:
    """What no run may leave once the next has run."""
    box = stage.box()
    found = [*(nothing_left(box) if isinstance(box, Workshop) else box.leftovers()), *parts(box)]
    found += [str(path.relative_to(stage.root)) for path in stage.tmp.iterdir()]
    found += [
        str(path.relative_to(stage.root))
        for path in stage.root.rglob("*")
        if (
            path.name.endswith(".tmp")
            or ".envmgr-" in path.name
            or path.name.startswith((".copy-", ".current.", "tmp"))
        )
        and not path.is_relative_to(stage.tmp)
        and path != stage.tmp
        and "cache" not in path.parts
        and "store" not in path.parts
    ]
    found += [str(path.relative_to(stage.root)) for path in (box.prefix / "var/jobs").rglob("*") if not path.is_dir()]
    flips = {path.name for path in box.prefix.glob("flips/*") if path.stat().st_size}
    if not stage.easybuild:  # that site does not sign
        found += [f"flips/{name}" for name in flips if name.endswith(".json") and f"{name}.sig" not in flips]
    found += [f"flips/{name}" for name in flips if name.endswith(".sig") and name.removesuffix(".sig") not in flips]
    for folder in (path for path in box.prefix.glob("generations/*") if path.is_dir()):
        names = {path.name for path in folder.iterdir()}
        if names != {"abandoned.json"} and "generation.json" not in names:
            found.append(f"generations/{folder.name}: {sorted(names)}")
    return sorted(set(found))


def _verified(box: Sandbox) -> list[str]:
    """`envmgr verify`, in this process: a third of a round is the start of a Python."""
    site = load_site(box.root / "site.yaml", {})
    found = look(Context(site, Runner(), SilentReporter(), dict(os.environ)), VerifyWhat()).result().findings
    return [f"verify: {each.found}" for each in found]


def _complete_ones(box: Sandbox) -> set[str]:
    return {path.parent.name for path in box.prefix.glob("generations/*/generation.json")}


def _judge_state(box: Sandbox, plot: Plot, before: set[str], was: int | None, *, whole: bool = True) -> list[str]:
    broken = []
    try:
        if whole:
            complete(box, box.current())
    except (AssertionError, OSError, ValueError, KeyError) as error:
        broken.append(f"current: {type(error).__name__}: {error}")
    if box.current() is None and was is not None:
        broken.append("current is gone")
    if not plot.forgets and (lost := before - _complete_ones(box)):
        broken.append(f"generations are lost: {sorted(lost)}")
    return broken


def _judge_words(done: Done, *, may_die: bool) -> list[str]:
    if may_die and done.code == -9:
        return []
    if done.code not in (0, 1, 2, 3, 4, 130):
        return [f"exit {done.code} is none of ours"]
    if done.code in (2, 3, 4, 130):
        found = re.findall(r"^error\[([a-z0-9-]+)\]: \S", done.stderr, re.MULTILINE)
        if not found and re.search(r"^failed +\S+ +this machine +\S", done.stdout, re.MULTILINE):
            return []  # node-setup tells of each file
        if not found:
            return [f"exit {done.code} without an error of the house form"]
        if unknown := set(found) - {
            *re.findall(r"^\| `([a-z0-9-]+)`", (ROOT / "docs/errors.md").read_text(), re.MULTILINE)
        }:
            return [f"errors that docs/errors.md does not have: {sorted(unknown)}"]
    return []


def _tracebacks(when: str, done: Done) -> list[str]:
    text = done.stdout + done.stderr
    return [f"{when}: exit {done.code}\n{text}"] if "Traceback" in text or done.code == 4 else []


def some(numbers: Sequence[int], most: int) -> list[int]:
    """At most `most` of them, evenly over all; the first and the last are among them."""
    if len(numbers) <= most:
        return list(numbers)
    step = (len(numbers) - 1) / (most - 1)
    return sorted({numbers[round(index * step)] for index in range(most)})


def by_chance(stage: Stage, chance: random.Random, verbs: Sequence[str]) -> Iterator[Outcome]:
    """Rounds without end: a verb, a fault, a call. The calls of each verb are counted once."""
    known: dict[str, list[Call]] = {}
    while True:
        verb = chance.choice(sorted(verbs))
        if verb not in known:
            known[verb] = calls_of(stage, verb)
        fault = chance.choice(sorted(FAULTS))
        if numbers := numbers_of(stage, fault, known[verb]):
            yield play(stage, verb, fault, chance.choice(numbers))
