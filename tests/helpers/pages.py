"""The command blocks of README and docs: what they are made of, whether one is marked, and what typing them gives.

A block is indented by four spaces. It holds commands if it has a prompt (`[alice@login]$ `), or begins with a program. A mark
in the page's source, an HTML comment, covers the next block, or the rest of its section:

    <!-- not typed: REASON -->
    <!-- typed by: tests/FILE.py -->
    <!-- typed by, this section: tests/FILE.py -->
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from demo.session import watched
from tests.helpers.cluster import Cluster
from tests.helpers.places import ROOT
from tests.helpers.sandbox import PYTHON
from tests.helpers.standin.wheels import pins
from tests.helpers.transcript import SKIPPED, masked

PAGES = tuple(str(path.relative_to(ROOT)) for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))))
_CLUSTER = "tests/cluster/test_pages.py"
TYPED = {
    "README.md": _CLUSTER,
    "docs/any-cluster.md": "tests/cluster/audit/test_without_site.py",
    "docs/audit.md": _CLUSTER,
    "docs/jobs.md": _CLUSTER,
    "docs/monitoring.md": _CLUSTER,
    "docs/node-setup.md": _CLUSTER,
    "docs/quickstart.md": "tests/cluster/test_quickstart.py",
    "docs/recipe.md": _CLUSTER,
    "docs/signing.md": _CLUSTER,
    "docs/sources.md": _CLUSTER,
    "docs/tour.md": _CLUSTER,
    "docs/users.md": "tests/cluster/test_users.py",
}
"""The pages with commands that have no mark, and the tests that type these."""
PROMPT = re.compile(r"(?:\[(\w+)@(\w+)\])?\$ ")
NUMPY = next(pin for pin in pins() if pin.name == "numpy")
# What shells know without a file, and what a machine without Slurm or Lmod does not have.
_PROGRAMS = {"envmgr", "module", "srun", "sbatch", "scontrol", "reframe", "eval", "dnf", "apt-get"}
_MARK = re.compile(r"<!-- (not typed|typed by)(, this section)?: (.+?) -->$")


@dataclass(frozen=True, slots=True)
class Step:
    """One command, as a user types it on a node, and the output that the page shows; None where it shows none."""

    user: str
    node: str
    command: str
    output: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Block:
    """`mark` is why it is not typed here, or the file of the tests that types it; `typed_by` tells which."""

    page: str
    section: str
    line: int
    lines: tuple[str, ...]
    mark: str = ""
    typed_by: bool = False

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> bool:
        if any(PROMPT.match(line) or re.match(r"\w+\$ [a-z]", line) for line in self.lines):
            return True
        word = self.lines[0].split()[0]
        return word in _PROGRAMS or word.endswith("/envmgr") or shutil.which(word) is not None

    @property
    def steps(self) -> Iterator[Step]:
        """A prompt without a user is root's. Without any prompt each line is a command, and no output is shown."""
        lines = list(self.lines)
        prompts = any(PROMPT.match(line) for line in lines)
        while lines:
            line = lines.pop(0)
            if not line.strip():
                continue
            found = PROMPT.match(line)
            user, node = (found and found[1]) or "root", (found and found[2]) or "login"
            command = [PROMPT.sub("", line, count=1)]
            ends = re.findall(r"<<'(\w+)'", line)
            while lines and (command[-1].endswith("\\") or ends):
                command.append(lines.pop(0))
                if ends and command[-1] == ends[0]:
                    del ends[0]
            shown = []
            while prompts and lines and not PROMPT.match(lines[0]):
                shown.append(lines.pop(0))
            yield Step(user, node, "\n".join(command), tuple(shown) if any(shown) else None)


def blocks(page: str) -> list[Block]:
    """Those of a page, in its order, each with the mark that covers it."""
    made: list[Block] = []
    heading, section, mark = "", ("", False), ("", False)
    lines = (ROOT / page).read_text("utf-8").splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("    ") and (at == 0 or not lines[at - 1].strip()) and not _in_list(lines, at):
            start = at
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            text = tuple(each[4:].rstrip() for each in "\n".join(lines[start:at]).rstrip().split("\n"))
            reason, by = mark if mark[0] else section
            made.append(Block(page, heading, start + 1, text, reason, by))
            mark = ("", False)
            continue
        if found := _MARK.match(line):
            mark = (found[3], found[1] == "typed by")
            if found[2]:
                section, mark = mark, ("", False)
        elif line.startswith("#"):
            heading, section, mark = line.lstrip("# "), ("", False), ("", False)
        at += 1
    return made


def to_type(page: str, *sections: str) -> list[Block]:
    """The blocks with commands that have no mark, of these sections or of all."""
    return [b for b in blocks(page) if b.commands and not b.mark and (not sections or b.section in sections)]


def _in_list(lines: list[str], at: int) -> bool:
    """Whether the line goes on with an item of a list."""
    before = next((line for line in reversed(lines[:at]) if line.strip()), "")
    return bool(re.match(r" {0,3}(- |\d+\. | {2}\S)", before))


def spoken(text: str) -> str:
    """A page's text with the Python that tests have, and its numpy."""
    minor = NUMPY.version.rpartition(".")[0]
    text = text.replace("3.11", PYTHON).replace("cp311", f"cp{PYTHON.replace('.', '')}")
    return text.replace("1.26.4", NUMPY.version).replace("numpy==1.26.*", f"numpy=={minor}.*")


class Typist:
    """Types blocks on a cluster; `change` adapts what is typed and shown to the scene. Each block has login shells of its own."""

    def __init__(self, cluster: Cluster, change: Callable[[str], str] = str, folder: str = "") -> None:
        """`folder` is where shells start, by default the home."""
        self._cluster = cluster
        self._change = change
        self._folder = folder

    def type(self, *typed: Block) -> None:
        """Type each step of the blocks, in the same shells, and compare what it says with the page.

        Raises:
            AssertionError: a status or an output is another one than the page shows. A step whose output begins an error
                must fail, and every other one must not; an audit whose output the page does not show may have findings.
        """
        shells: dict[tuple[str, str], _Shell] = {}
        try:
            for block, step in ((each, step) for each in typed for step in each.steps):
                who = (step.user, step.node)
                shell = shells.get(who) or shells.setdefault(who, _Shell(self._cluster, *who, self._folder))
                status, said = shell.ask(self._change(step.command))
                shown = None if step.output is None else [self._change(line) for line in step.output]
                seen = f"{block}: `{step.command}`: exit {status}\n{said}"
                if shown is None and " audit" in step.command:
                    assert status in (0, 1), seen  # 1: findings
                else:
                    assert (status != 0) == any(line.startswith("error") for line in shown or ()), seen
                assert shown is None or agrees(shown, said), f"{seen}\n--- the page shows\n" + "\n".join(shown)
        finally:
            for shell in shells.values():
                shell.close()


def agrees(shown: list[str], said: str) -> bool:
    """Whether the output is what a page shows: `…` is any number of lines, or any text within a line."""
    wanted = "".join(
        r"(?:.*\n)*?" if line.strip() == SKIPPED else re.escape(line).replace("…", ".*") + r"\n"
        for line in masked(shown)
    )
    return re.fullmatch(wanted, "".join(f"{line}\n" for line in masked(said.splitlines()))) is not None


class _Shell:
    """A `bash -l` of a user on a node, open from one command of a block to the next."""

    def __init__(self, cluster: Cluster, user: str, node: str, folder: str) -> None:
        self._process = cluster.start(node, ["sh", "-c", f"cd {folder}; exec bash -l 2>&1"], user=user)

    def ask(self, command: str) -> tuple[int, str]:
        """Type a command; returns its exit status, -1 where the shell ended, and what it said."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        mark = secrets.token_hex(8)
        stdin.write(f"{{ {command}\n}} </dev/null\nprintf '\\n{mark} %s\\n' $?\n")
        stdin.flush()
        lines: list[str] = []
        with watched(self._process.kill):
            for line in stdout:
                if line.startswith(mark):
                    return int(line.split()[1]), "".join(lines).strip("\n")
                lines.append(line)
        return -1, "".join(lines)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
