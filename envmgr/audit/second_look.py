"""The second look: what the start of a shell read and set, and the text of files, on nodes that differ and on one that does not.

One script for all of these nodes. Source: bash(1), PS4, BASH_XTRACEFD; tried on bash 5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePath

from envmgr.probe.model import Facts, ProbePart, ShellAccount, ShellContext, grouped
from envmgr.system.shelltext import UNTRACED_END, assign, script_text, untraced, words

_SECONDS = 10  # for each shell, for all files, and for all paths
_TAB = r"\t"  # as facts have it: see `escaped`
SECRET = "a line with a secret"  # noqa: S105 - the words for one


@dataclass(frozen=True, slots=True)
class Wanted:
    """The question of a second look: on `nodes` that differ and `normal` ones, the shells (context, account), the text of `files`, where `paths` lead, and what lies in `trees`."""

    nodes: tuple[str, ...]
    normal: tuple[str, ...] = ()
    shells: tuple[tuple[str, ShellAccount], ...] = ()
    files: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """The second look of nodes. `facts` maps each node that answered to its answer."""

    facts: Mapping[str, Facts] = field(default_factory=dict)

    def read(self, node: str, context: str, account: str) -> frozenset[str]:
        """Return the files that the start of that shell read."""
        return self._of(node, f"{context}.{account}").get("read", frozenset())

    def is_start_up(self, file: str) -> bool:
        """Return whether the start of any shell that was looked at read the file."""
        return any(f"read{_TAB}{file}" in told.splitlines() for of in self.facts.values() for told in of.values())

    def place(self, node: str, context: str, account: str, name: str) -> str:
        """Return FILE:LINE of the line that set NAME last there; empty if no line of a start-up file does."""
        return next(iter(self._of(node, f"{context}.{account}").get(rf"set{_TAB}{name}", ())), "")

    def text(self, node: str, file: str) -> list[str] | None:
        """Return the lines of a file without comments and blank lines; None if it was not reported."""
        told = self.facts.get(node, {}).get(f"second_look.text.{file}")
        return None if told is None else [line for line in told.splitlines() if line]

    def leads(self, path: str) -> frozenset[str]:
        """Return the paths to which a path leads on any node: links, and the program that a script names."""
        return frozenset[str]().union(*(self._of(node, "leads").get(path, ()) for node in self.facts))

    def ways(self, node: str) -> dict[str, str]:
        """Return each path that was looked at with the type, mode and owner of it, and of the folders on its way. What lies in
        a tree is reported with its size, too: of two rows the longer one counts.
        """
        return {path: max(of, key=len).partition(" ")[2] for path, of in self._of(node, "ways").items()}

    def changed(self, node: str, path: str) -> float:
        """Return when the path, or the nearest folder on its way that is there, changed last, in seconds; 0 if nobody looked."""
        rows = self._of(node, "ways")
        found = next((rows[at] for at in (path, *map(str, PurePath(path).parents)) if at in rows), ())
        return max((float(row.partition(" ")[0]) for row in found), default=0.0)

    def _of(self, node: str, what: str) -> Mapping[str, frozenset[str]]:
        return _rows(self.facts.get(node, {}).get(f"second_look.{what}", ""))


@lru_cache(maxsize=1024)
def _rows(text: str) -> dict[str, frozenset[str]]:
    """Return what is before the last tab of each line -> what is behind it."""
    rows = grouped(line.rpartition(_TAB)[::2] for line in text.splitlines())
    return {key: frozenset(values) for key, values in rows.items()}


LookAgain = Callable[[Wanted], Seen]
"""A function that asks nodes."""


def traced_shell(context: ShellContext) -> str:
    """Return the shell that is traced for a context: a job is a child of the login shell that submits it."""
    if context.way == "ssh":
        return context.name
    return {"bash-interactive": "bash-interactive", "bash-login": "bash-job"}.get(context.shell, "bash-login")


def second_look_part(wanted: Wanted, users: Mapping[ShellAccount, str], generation: str) -> ProbePart:
    """Return all questions in one script, which is the same for every node."""
    given = assign(trace_end=f"set +x\n{untraced()}{UNTRACED_END}", generation=generation, look_seconds=_SECONDS)
    shells = ((f"{name}.{account}", users[account], name.removeprefix("bash-")) for name, account in wanted.shells)
    calls = [f"look_shell {words(*shell)}\n" for shell in shells]
    calls += [
        f'with_limit {_SECONDS} "$0.{what}" look_{what} {words(*paths)}; cat "$0.{what}"\n'
        for what in ("files", "paths", "trees")
        if (paths := getattr(wanted, what))
    ]
    text = script_text(__file__, "shell.sh") + script_text(__file__, "csh.sh") + script_text(__file__, "sh")
    return ProbePart("second_look", {"prefix": "".join([given, text, *calls])})
