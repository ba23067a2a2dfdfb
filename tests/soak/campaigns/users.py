"""20 environments of users through 10 publishes, a rollback and a gc, with two creates at once and a kill in each round: none breaks.

Each publish gives the entry another install. Each round makes two environments at once (in every other round both try to get one
name first), and kills a create, an add, an update or a rebase at a moment of chance; the same command then works. After each round every
environment is loaded, and imports its own package, the one that a kill met or not, and the entry's, from the install that it stands on. A
shell that loaded the first one in round 1 goes on importing. gc keeps one generation, and takes the installs that nobody stands on.
"""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envmgr.system.files import remove_tree
from tests.helpers.places import CACHE
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.scenes import finish, kill, no_processes
from tests.helpers.standin.channel import cached_channel
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

ROUNDS, ROLLBACK, GC = 12, 5, 9
ENTRY = "sci/1.0"
PER_ROUND = 2  # environments of each publish
LONGEST = 6.0  # seconds after which a command is killed, at most
MORE = ("tabulate", "packaging", "typing_extensions", "pyyaml")  # what changes the entry
SHOW = "import os, own, six, sys; print(own.VERSION, six.__file__, os.path.isfile(six.__file__))"


def play(seed: int, first: int, last: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        users = Users(Path(folder))
        try:
            for number in range(first, last + 1):
                yield users.round(number, random.Random(f"{seed}/{number}"))
        finally:
            users.end()


class Users:
    """One user with all environments. `stands_on` maps a name to the install of the entry that it was made on."""

    def __init__(self, folder: Path) -> None:
        policies = {"min_free": 0, "keep_generations": 1, "keep_days": 1}
        self.box = Sandbox(folder, str(cached_channel(CACHE).folder), policies=policies)
        self.box.write_site()
        self.made: WheelBox = make_wheel_box(self.box)
        self.made.index(pypi=self.made.house.simple.as_uri())
        for version in ("1.0", "2.0"):
            self.made.house.wheel("own", version, requires=["six"])
        for name in ("extra", "more"):
            self.made.house.wheel(name, requires=["own"])
        self.stands_on: dict[str, str] = {}
        self.shell: subprocess.Popen[str] | None = None
        self._published = 0
        self._publish()
        self._first = self._current()

    def round(self, number: int, chance: random.Random) -> str:
        if number == GC:
            self._keep(days=0)
            done = self._ok("gc", "--now", "--format", "json")
            held = [row["path"] for row in done["kept"] if row["reason"].startswith("environments of ")]
            there = {str(path.relative_to(self.box.prefix)) for path in self.box.prefix.glob("store/sci/1.0-????????")}
            assert there >= {*self.stands_on.values(), self._current()}, (there, self.stands_on)
            assert self._first not in there  # nobody stands on it
            self._keep(days=1)  # former installs of environments, too, which open shells have loaded
            what = f"gc: {len(held)} installs are held"
        elif number == ROLLBACK:
            self.box.ok("rollback")
            what = "rollback"
        else:
            self._publish()
            self._create(number)
            what = f"publish: generation {self.box.current()}"
        what += f"; {self._interrupt(chance)}"
        self._check(number)
        return f"{what}; {len(self.stands_on)} environments"

    def _keep(self, *, days: int) -> None:
        self.box.policies["keep_days"] = days
        self.box.write_site()

    def _publish(self) -> None:
        """Each number is another set of packages, so another install."""
        more = [name for bit, name in enumerate(MORE) if self._published >> bit & 1]
        self._published += 1
        self.box.recipe(ENTRY, [f"python {PYTHON}.*", "six", *more])
        self.box.ok("lock", ENTRY)
        self.box.ok("build", ENTRY)

    def _current(self) -> str:
        record = json.loads((self.box.prefix / "current/generation.json").read_text())
        path: str = record["entries"][ENTRY]["path"]
        return path

    def _ok(self, *argv: str) -> dict[str, Any]:
        data: dict[str, Any] = self.box.ok(*argv, HOME=str(self.box.root)).data
        return data

    def _start(self, *argv: str) -> subprocess.Popen[str]:
        return self.box.start("user", *argv, HOME=str(self.box.root))

    def _create(self, number: int) -> None:
        """Both at once; in every other round, both of them want the first name."""
        names = [f"e{number}-{each}" for each in range(PER_ROUND)]
        wanted = names if number % 2 else [names[0]] * PER_ROUND
        ended = [finish(each) for each in [self._start("create", name, "--on", ENTRY, "own==1.0") for name in wanted]]
        assert sorted(done.code for done in ended) == ([0] * PER_ROUND if number % 2 else [0, 2]), ended
        if not number % 2:
            assert sum("error[name-taken]" in done.stderr for done in ended) == 1, ended
            self._ok("user", "create", names[1], "--on", ENTRY, "own==1.0", "--format", "json")
        self.stands_on |= dict.fromkeys(names, self._current())

    def _interrupt(self, chance: random.Random) -> str:
        """Kill a command; what it was about works as before, or as after it. Then the command works."""
        name = chance.choice(sorted(self.stands_on))
        argv = chance.choice(
            [
                ("create", "killed", "--on", ENTRY, "own"),
                ("add", name, chance.choice(["extra", "more", "own>=1"])),
                ("update", name),
                ("update", name, "--rebase"),
            ]
        )
        process = self._start(*argv)
        time.sleep(chance.uniform(0, LONGEST))
        end = "killed" if process.poll() is None else "killed too late"
        kill(process)
        no_processes(self.box)
        self._imports([name])
        if argv[0] == "create":
            if self.box.run("user", *argv, HOME=str(self.box.root)).code:  # it was made before the kill
                self._imports(["killed"])
            self._ok("user", "delete", "killed", "--format", "json")
        else:
            self._ok("user", *argv, "--format", "json")
        if "--rebase" in argv:
            self.stands_on[name] = self._current()
        store = self.box.root / ".local/share/envmgr/envs/.envmgr"
        left = [*store.glob("store/user/.staging-*"), *store.glob("cache/*"), *store.glob("store/user/killed-*")]
        assert left == [], left
        return f"user {' '.join(argv)}: {end}"

    def _check(self, number: int) -> None:
        said = self._imports([*self.stands_on])
        for name, root in self.stands_on.items():
            assert f"{self.box.prefix}/{root}/" in said[name], (number, name, root, said[name])
        rows = self._ok("user", "list", "--format", "json")["environments"]
        assert {row["name"] for row in rows} == {*self.stands_on}
        assert [row for row in rows if row["base"] == "gone" or row.get("fault") or row["strangers"]] == []
        self._goes_on()

    def _imports(self, names: list[str]) -> dict[str, str]:
        """Load each environment in a shell, and return what it says of its packages."""
        lines = [f"module load user/{name} && echo \"{name} $(python -c '{SHOW}')\"; module purge" for name in names]
        done = self.box.shell("\n".join([*lines, ""]))
        said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
        broken = [name for name in names if not said.get(name, "").endswith(" True")]
        assert broken == [], f"{broken}: {done.stdout[-1000:]}{done.stderr[-1000:]}"
        return said

    def _goes_on(self) -> None:
        """The shell that has the first environment loaded since round 1, whatever became of it."""
        if self.shell is None:
            name = min(self.stands_on)
            self.shell = subprocess.Popen(
                ["bash", "--noprofile", "--norc"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={"PATH": "/usr/bin:/bin", "HOME": str(self.box.root)},
            )
            self._tell(f"{self.box.ok('shell-init', 'bash').stdout}\nmodule load user/{name}\n")
        self._tell(f"python -c '{SHOW}' 2>&1; echo END $?\n")  # a line, whatever it says
        assert self.shell.stdout is not None
        said = [self.shell.stdout.readline(), self.shell.stdout.readline()]
        assert (said[0].endswith(" True\n"), said[1]) == (True, "END 0\n"), said

    def _tell(self, text: str) -> None:
        assert self.shell is not None
        assert self.shell.stdin is not None
        self.shell.stdin.write(text)
        self.shell.stdin.flush()

    def end(self) -> None:
        if self.shell is not None:
            self.shell.kill()
            self.shell.communicate()
        remove_tree(self.box.root / ".local")
        self.box.clear()
