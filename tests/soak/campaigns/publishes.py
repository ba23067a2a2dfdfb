"""Publish, remove, rollback and clean-up without end, every third of them killed at a moment of chance.

After each, `current` names a complete generation whose files and installs are what their records say, to the byte, and a
shell loads from it; after a kill the next command cleans up.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.places import CACHE
from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import complete, kill, no_processes
from tests.helpers.standin.channel import cached_channel

ROUNDS = 300
ENTRIES = {"hello/1.0": "hello-prefix", "greet/1.0": "hello-activate"}
LONGEST = 3.0  # seconds after which a command is killed, at most


def play(seed: int, first: int, last: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        box = Sandbox(Path(folder), str(cached_channel(CACHE).folder))
        box.write_site()
        try:
            for entry, package in ENTRIES.items():
                box.recipe(entry, [package])
            box.ok("lock", *ENTRIES)
            box.ok("build", *ENTRIES)
            for number in range(first, last + 1):
                yield _round(box, random.Random(f"{seed}/{number}"))
        finally:
            box.clear()


def _round(box: Sandbox, chance: random.Random) -> str:
    argv = _command(box, chance)
    if chance.randrange(3):
        done = box.run(*argv)
        assert done.code == 0, f"{argv}\n{done.stdout}{done.stderr}"
        end = "done"
    else:
        process = box.start(*argv)
        time.sleep(chance.uniform(0, LONGEST))
        end = "killed" if process.poll() is None else "killed too late"
        kill(process)
        no_processes(box)
    complete(box, box.current())
    for entry in _published(box):
        name = entry.partition("/")[0]
        loaded = box.shell(f"module load {entry} && module -t list 2>&1")
        assert loaded.stdout.splitlines()[-1:] == [entry], f"{argv}: {name}\n{loaded.stdout}{loaded.stderr}"
    if end != "done":  # what it left goes with the next run
        box.ok("gc")
        assert box.leftovers() == []
    return f"{' '.join(argv)}: {end}"


def _command(box: Sandbox, chance: random.Random) -> list[str]:
    here = _published(box)
    choices = [["build", *ENTRIES], ["gc"], *(["publish", entry] for entry in ENTRIES)]
    choices += [["publish", "--remove", entry] for entry in here]
    kept = [p.parent.name for p in box.prefix.glob("generations/*/generation.json")]
    choices += [["rollback", str(int(name))] for name in kept if int(name) != box.current()]
    return chance.choice(sorted(choices))


def _published(box: Sandbox) -> list[str]:
    return sorted(json.loads((box.prefix / "current/generation.json").read_text())["entries"])
