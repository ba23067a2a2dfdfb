"""The relations between a harm and a difference, the nearest first. A difference without one is never called a cause."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from envmgr.audit.second_look import Seen, traced_shell
from envmgr.audit.table import read_yaml

if TYPE_CHECKING:
    from envmgr.audit.inventory.differences import Difference
    from envmgr.audit.inventory.looked_into import Lines
    from envmgr.audit.join.harms import Harm

    Relation = Callable[[Harm, Difference, "View"], bool]


@dataclass(frozen=True, slots=True)
class View:
    """All else that the relations look at: the second look, the differing lines of files, and nodes that are right. `sender` is the host that sends jobs,
    `home` that of the `user`; ssh does not let the audit into nodes that are `shut`. `libraries` maps names to paths, `brought` are folders that modules name.
    """

    seen: Seen = field(default_factory=Seen)
    lines: Lines = field(default_factory=dict)
    normal: tuple[str, ...] = ()
    sender: str = ""
    home: str = ""
    user: str = ""
    shut: frozenset[str] = frozenset()
    libraries: Mapping[str, str] = field(default_factory=dict)
    brought: frozenset[str] = frozenset()

    def shell(self, harm: Harm) -> tuple[str, str, str] | None:
        """Return node, context and account of the traced shell of a harm; None if it is about no shell."""
        return None if harm.context is None else (harm.node, traced_shell(harm.context), harm.account)

    def ways(self, paths: Iterable[str]) -> frozenset[str]:
        """Return the paths, and those to which they lead."""
        return frozenset(paths).union(*map(self.seen.leads, paths))

    def read(self, node: str, context: str, account: str) -> frozenset[str]:
        """Return the files that the start of that shell reads there, or on nodes that are right: one that is broken is read to no end."""
        return frozenset[str]().union(*(self.seen.read(of, context, account) for of in (node, *self.normal)))

    def sets(self, harm: Harm, name: str) -> str:
        """Return FILE:LINE of what sets NAME in the shell of a harm."""
        shell = self.shell(harm)
        return self.seen.place(*shell, name) if shell else ""


_LIBRARY = re.compile(r"(?:\b|(?<=\\t))lib[\w+.-]+\.so(?:\.\d+)*")
_SERVICES = tuple(read_yaml(Path(__file__).with_name("services.yaml")).values())


def _same_path(harm: Harm, of: Difference, _: View) -> bool:
    named = f"{of.value} {of.right}".split() if of.kind == "account" else [of.path]
    return not {*named}.isdisjoint(harm.paths) or (harm.is_state and of.key == harm.finding.where)


def _led_to(harm: Harm, of: Difference, view: View) -> bool:
    return bool(of.path) and any(of.path in view.seen.leads(path) for path in harm.paths)


def _sets_it(harm: Harm, of: Difference, view: View) -> bool:
    places = {view.sets(harm, name).rpartition(":")[0] for name in (*harm.names, *harm.sets)}
    return of.kind in ("file", "link") and of.path in places


def _below_mount(harm: Harm, of: Difference, view: View) -> bool:
    return of.kind == "mount" and any(path.startswith(f"{of.path}/") for path in view.ways(harm.paths))


def _its_lines_name_it(harm: Harm, of: Difference, view: View) -> bool:
    return any(re.search(rf"\b{name}\b", " ".join(view.lines.get((harm.node, of.path), ()))) for name in harm.names)


def _of_its_service(harm: Harm, of: Difference, _: View) -> bool:
    return configures(of, f"{harm.finding.check}: {harm.text}") or configures(of, getattr(harm.context, "name", ""))


def configures(of: Difference | str, way: str) -> bool:
    """Return whether it, or the setting of this name, configures the service that the name of a context, or the words of a harm, tell of."""
    named = of if isinstance(of, str) else f"{of.kind} {of.key}"
    return any(re.match(what, named) for what in _settings(way))


@lru_cache(maxsize=1024)
def _settings(way: str) -> tuple[str, ...]:
    return tuple(row["what"] for row in _SERVICES if re.match(row["way"], way))


def daemons(harm: Harm) -> list[str]:
    """Return the programs of the services that ended in the harm."""
    way = f"{harm.finding.check}: {harm.text}"
    return [row["program"] for row in _SERVICES if "program" in row and re.match(row["way"], way)]


def said_by_itself(harm: Harm, view: View) -> str:
    """Return the path of the library that it names, or that its daemon does not find, or else of the daemon, if it names that; empty for none."""
    at = daemons(harm)
    names = (*_LIBRARY.findall(harm.text), *(path[1:] for path in sorted(view.ways(at))))
    named = (path for path in at if path.rpartition("/")[2] in harm.text)
    return next((view.libraries[name] for name in names if name in view.libraries), next(named, ""))


def _has_its_home(harm: Harm, of: Difference, view: View) -> bool:
    own = harm.account == "user" and (harm.context is not None or harm.finding.check == "ssh")
    keys = harm.finding.check == "ssh" and f"{of.path}/".startswith(f"{view.home}/.ssh/")
    return own and of.kind in ("mount", "dir", "link") and (keys or f"{view.home}/".startswith(f"{of.path or '-'}/"))


def _variable(harm: Harm, of: Difference, _: View) -> bool:
    return of.kind == "env" and of.key in harm.names and _same_shell(harm, of)


def _read_by_it(harm: Harm, of: Difference, view: View) -> bool:
    shell = view.shell(harm)
    return bool(of.path) and of.kind in ("file", "link", "prog") and shell is not None and of.path in view.read(*shell)


def _holds_what_it_reads(harm: Harm, of: Difference, view: View) -> bool:
    shell = view.shell(harm)
    return shell is not None and any(holds(of, path) for path in view.read(*shell))


def holds(of: Difference, path: str) -> bool:
    """Return whether a mount, link or folder that differs holds the path."""
    kinds = ("mount", "link", "dir", "modfile", "modpath")
    return of.kind in kinds and of.path not in ("", "/") and path.startswith(f"{of.path}/")


def _library(harm: Harm, of: Difference, _: View) -> bool:
    if of.kind == "lib":
        return of.key in harm.text or bool({of.value, of.right} & {*harm.paths})
    return of.path.rpartition("/")[2].startswith(libraries_in(harm.text))


def libraries_in(text: str) -> tuple[str, ...]:
    """Return the libraries that are named."""
    return tuple(_LIBRARY.findall(text))


def is_its_file(of: Difference, text: str) -> bool:
    """Return whether it is the modulefile of a module that is named."""
    name = "/".join(of.path.removesuffix(".lua").split("/")[-2:])
    return of.kind == "modfile" and bool(re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", text))


def _below_or_above(harm: Harm, of: Difference, view: View) -> bool:
    paths = view.ways(harm.paths)
    above = (of.path.startswith(f"{path}/") for path in paths if path.count("/") > 1)
    return len(of.path) > 1 and (any(path.startswith(f"{of.path}/") for path in paths) or any(above))


def is_name_in(of: Difference, text: str) -> bool:
    """Return whether it is a program or a link whose name is said."""
    name = of.path.rpartition("/")[2].partition(".")[0]
    least = 3 if of.path.endswith(".so") else 4
    return of.kind in ("prog", "link") and len(name) >= least and name in re.findall(r"[\w+-]+", text)


def _state_of_its_shell(harm: Harm, of: Difference, _: View) -> bool:
    return of.kind in ("flags", "ifs", "alias", "func", "umask", "state") and _same_shell(harm, of)


def _same_shell(harm: Harm, of: Difference) -> bool:
    names = (harm.context.name, traced_shell(harm.context)) if harm.context else ()
    return of.where in (f"ctx.{name}.{harm.account}." for name in names)


RELATIONS: tuple[tuple[str, Relation], ...] = (
    ("it is named", _same_path),
    ("what is named leads to it", _led_to),
    ("it sets what is named", _sets_it),
    ("it is mounted over what is named", _below_mount),
    ("it is the file of the module", lambda harm, of, _: is_its_file(of, harm.text)),
    ("its lines name it", _its_lines_name_it),
    ("it configures the service", _of_its_service),
    ("it has the user's home", _has_its_home),
    ("the variable is named", _variable),
    ("the shell reads it", _read_by_it),
    ("the library is named", _library),
    ("it holds what is named", _below_or_above),
    ("it holds what the shell reads", _holds_what_it_reads),
    ("it is a state of that shell", _state_of_its_shell),
    ("its name is said", lambda harm, of, _: is_name_in(of, harm.text)),
    ("a daemon loads it", lambda harm, of, view: any(of.path in view.seen.leads(at) for at in daemons(harm))),
)
TRACED = [words for words, _ in RELATIONS].index("it configures the service")  # a traced line counts more than this


def nearest(harm: Harm, of: Difference, view: View) -> int | None:
    """Return the place of the nearest relation in RELATIONS; None for none."""
    return next((at for at, (_, holds) in enumerate(RELATIONS) if holds(harm, of, view)), None)


def turned(found: Sequence[Difference], harms: Sequence[Harm], view: View) -> list[Difference]:
    """Return the differences, turned round if one of these harms all nodes that are right, and no odd node; and of halves that one
    which is harmed is wrong.
    """
    doubt = [of for of in found if of.others]
    able = {of: replace(of, value=of.right, right=of.value, nodes=of.others, others=of.nodes) for of in doubt}
    wrong = {of.others for of in able if of.known and _harms_only(able[of], harms, view)}
    sides = ((of, side) for of in able if not of.known for side in (of, able[of]))
    halves = {of: replace(side, known=True) for of, side in sides if _harms_only(side, harms, view)}
    return [halves.get(of) or (able[of] if of.known and of.others in wrong else of) for of in found]


def _harms_only(of: Difference, harms: Sequence[Harm], view: View) -> bool:
    """Return whether it harms all of its nodes, and no other ones."""
    nodes, on = {*of.nodes}, {*of.nodes, *of.others}
    near = [each for each in harms if each.node in on and each.finding.severity != "note" and not each.inherited]
    if not nodes <= {harm.node for harm in near}:
        return False
    # What all have alike turns only by what it names; few of its nodes are looked at again.
    hit = {
        each.finding if each.alike else each
        for each in near
        if any(fits(each, of, view) for _, fits in RELATIONS[: TRACED if each.alike else None])
    }
    return {each.node for each in near if (each.finding if each.alike else each) in hit} == nodes
