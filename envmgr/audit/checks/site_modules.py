"""Modules outside the prefix load: a sample of those in the users' MODULEPATH, one by one on every node.

In the ordinary user's login shell, each module is loaded in a clean environment and within ten seconds. The sample has
eight modules, or 24 where nothing is published, and others each day. `--deep` loads all (500 at most). Where nothing is
published, `--modules` names the modules instead. A module of a folder that another module opens is drawn like the
others, and loaded after that module.

The check compares between nodes what loading sets, and which of the folders and programs that it names are there. It
starts the first program (`--version`), and ends what modules and programs leave running. A node's name, a time, and a
value that differs on each node are no difference.

Reported wherever they occur:

- a module that names another module which is not there;
- a modulefile that ends in an error of Lua or Tcl, such as one that needs a variable which only login shells have;
- a module whose loading does not end.

Reported by comparing nodes: a module that loads only on some nodes, and a program of it that lacks shared libraries on
one node. A module that brings a Python or mpirun of its own, as an entry does, is a note. A refusal in a module's own
words (a licence, a group, another module that must be loaded first) is the site's choice, where all nodes report the
same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter

from envmgr.audit.compare.between_nodes import merged
from envmgr.audit.fit.install_facts import start_fault
from envmgr.audit.look import Look, Said, looked_at, say
from envmgr.audit.model import QUORUM, Check, Evidence, ProbeTexts, Rows, Values
from envmgr.audit.openings import AS_OTHERS, open_steps
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.shared_shell import changed_lines, module_show, opened, shared, without_host
from envmgr.audit.table import fields_of, short
from envmgr.probe.model import Facts, Fleet
from envmgr.system.shelltext import assign, script_text

_FEW, _ALONE, _MANY = 8, 24, 500
_LEAST = 8  # seconds for the sample
_KEY = "site_modules."
# Messages of Lmod and Environment Modules for a faulty module, not a fault of its user. Source: Lmod's
# messageDir/en.lua, 8.6 and 9.x; Environment Modules 5.2, by trying.
_UNKNOWN = re.compile(r"module\(s\) are unknown: (.*?)\s*(?:Please|$)|Unable to locate a modulefile for '(.*?)'")
_BROKEN = re.compile(
    r"Unable to load module because of error when evaluating modulefile:\s*(.*?)\s*(?:Please check|$)|Module ERROR: (.*?)\s*(?:In|$)"
)


def probe(plan: AuditPlan) -> ProbeTexts:
    named = "" if plan.modules == ("all",) else " ".join(plan.modules)
    many = plan.deep or plan.modules == ("all",)
    given = assign(
        site_modules_most=_MANY if many else _ALONE if plan.alone else _FEW,
        site_modules_named=named,
        site_modules_seconds=max(_LEAST, plan.seconds // 2),
    )
    return {"login": opened(plan.day, plan.seconds) + shared("named_paths") + given + script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Rows:
    fleet = evidence.shells
    for name in sorted({*fleet.names(f"{_KEY}loads."), *fleet.names(f"{_KEY}failed.")}):
        loads = fleet.only(lambda facts, name=name: _loads(name, facts) is not None)  # type: ignore[misc]
        yield from _module(name, loads, evidence)


def _module(name: str, fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield all that is wrong with one module, by the answers of nodes that tried to load it."""
    faults = [*looked_at(partial(_faults, name), fleet, evidence)]
    yield from faults
    if name in evidence.plan.modules and all(_unknown(_loads(name, group.facts)) == name for group in fleet.groups):
        yield evidence.say("unknown", fleet.nodes, name=name)
        return
    if not faults:
        yield evidence.compared("loads", fleet.by(partial(_loads, name)), name=name, say=_load_in_words)
    for lines, nodes in fleet.by_value(f"{_KEY}brings.{name}").items():
        if programs := _of_entries(lines.splitlines(), evidence):
            yield evidence.say("brings_too", nodes, name=name, programs=", ".join(programs))
    yield from _environment(name, fleet, evidence)
    yield from _brought(name, fleet, evidence)
    yield from _starts(name, fleet, evidence)
    lacks = fleet.where(f"{_KEY}loads.{name}", _YES).by_value(f"{_KEY}lacks.{name}", default="")
    yield evidence.compared("libraries", lacks, name=name, say=_missing_libraries)


def _faults(name: str, look: Look) -> Iterator[Said]:
    """Yield the fault of a modulefile, by Lmod's words; none if the module refuses in words of its own.

    A module that loads in login shells needs what their start-up files set. That is a note, because other shells may
    have it, too. A fault of a module that `--modules` names is an error.
    """
    said = " ".join(look.get(f"{_KEY}failed.{name}").split())
    in_login = look.get(f"{_KEY}here.{name}") == "loads"
    named = "error" if name in look.evidence.plan.modules else None
    severity = named or ("note" if in_login else None)
    before, after = ("in a clean environment it ", "; in login shells it loads") if in_login else ("", "")
    needed, broken = _unknown(said), _BROKEN.search(said)
    if said == _ENDLESS:
        yield say("endless", severity=named, name=name, said=said)
    elif needed not in ("", name):  # if it is listed and not found, comparing nodes reports it
        show = module_show(name)
        yield say("needs", severity=severity, name=name, before=before, after=after, needed=needed, show=show)
    elif broken and not needed and _CLOSED not in said:
        error, node = broken[1] or broken[2] or "", itemgetter(0)
        yield say("broken", severity=severity, name=name, before=before, after=after, error=error, node=node)


_YES = "yes"
_CLOSED = "Empty or non-existent file"  # Lmod's message for a modulefile that the user may not read
_ENDLESS = "no end in 10 s"


def _load_in_words(said: str) -> str:
    return "it loads" if said == _YES else f"cannot be loaded: {short(' '.join(said.split()))}"


def _environment(name: str, fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield the differences between nodes in what loading the module sets.

    A node's own name in a value, a time, and a value that differs on each node are no difference.
    """
    values = _nameless(fleet.by_value(f"{_KEY}sets.{name}"), fleet)
    passing = _passing(values)
    yield evidence.compared(
        "environment",
        merged(values, lambda text, _: _without(text, passing)),
        name=name,
        show=module_show(name),
        say=lambda text: f"it sets {short(changed_lines(text, ''))}",
        told=lambda of: f"it gives another environment: {short(changed_lines(of.value, of.right))}",
    )


_TIMES = re.compile(r"\b1[0-9]{9}\b|\b[0-2]?[0-9]:[0-5][0-9]:[0-5][0-9]\b")


def _nameless(values: Values, fleet: Fleet) -> dict[str, tuple[str, ...]]:
    """Return the values with NODE for a node's own name and TIME for a time.

    Texts that are alike but for these become one value.
    """
    return merged(values, lambda text, nodes: _TIMES.sub("TIME", without_host(text, nodes, fleet)))


def _passing(values: Values) -> frozenset[str]:
    """Return variables with another value on each of three nodes or more: a process's number, a folder made for it."""
    if sum(map(len, values.values())) < QUORUM:
        return frozenset()
    found: dict[str, set[str]] = {}
    for text in values:
        for line in text.splitlines():
            name, _, value = line.partition("=")
            found.setdefault(name, set()).add(value)
    many = {name for name, each in found.items() if len(each) == len(values) == sum(map(len, values.values()))}
    # These two decide which programs and libraries the user gets, so a difference always counts.
    return frozenset(many - {"PATH", "LD_LIBRARY_PATH"})


def _without(text: str, names: frozenset[str]) -> str:
    return "\n".join(line for line in text.splitlines() if line.partition("=")[0] not in names)


def _brought(name: str, fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield the differences in what the module names and brings: folders that are missing or closed, and programs."""
    looked = fleet.only(lambda facts: f"{_KEY}looked.{name}" in facts)
    values = _nameless(looked.by_value(f"{_KEY}has.{name}", default=""), fleet)
    lines = {line for value in values for line in value.splitlines()}
    closed = sorted(line.removeprefix("! ") for line in lines if line.startswith("! "))
    yield evidence.compared(
        "brings_closed" if closed else "brings",
        values,
        name=name,
        hint=open_steps(evidence.site, closed[:8], whom="users", look=AS_OTHERS) if closed else "",
        say=lambda text: _missing(text, "") or "what it names is there",
        told=lambda of: _missing(of.value, of.right),
    )


def _missing(value: str, right: str) -> str:
    """Return in words what `value` lacks, or has in addition, against `right`.

    Folders that are gone explain their programs.
    """
    lines, others = set(value.splitlines()), set(right.splitlines())
    lacks, more = sorted(others - lines), sorted(lines - others)
    words = _listed("it names {}, not there", more, "- ") + _listed(
        "it names {}, which the user cannot enter", more, "! "
    )
    if not words and right:
        words = _listed("it lacks {}", lacks, "/") + _listed("it also has {}", more, "/")
    if not words:
        words = _listed("{}, which others lack, is there", lacks, "- ") + _listed("{} can be entered", lacks, "! ")
    return short("; ".join(words) or ("it has other programs" if right else ""))


def _listed(words: str, lines: Sequence[str], kind: str) -> list[str]:
    found = [line if kind == "/" else line.removeprefix(kind) for line in lines if line.startswith(kind)]
    return [words.format(", ".join(found))] if found else []


def _starts(name: str, fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield faults of the first program that the module brings. If it starts nowhere, nodes are not compared."""
    faults = merged(_nameless(fleet.by_value(f"{_KEY}starts.{name}"), fleet), _start_in_words)
    if "" in faults:
        yield evidence.compared("first_program", faults, name=name)
        return
    for fault, nodes in faults.items():
        yield evidence.say("no_start", nodes, name=name, fault=fault)


def _start_in_words(text: str, _nodes: tuple[str, ...]) -> str:
    """Return why the program did not start; empty if it did, or did not end in time."""
    status, program, said = fields_of(text, 3)
    fault = start_fault(status, short(said))
    return f"{program} {fault}" if fault and status != "124" else ""


def _loads(name: str, facts: Facts) -> str | None:
    return facts.get(f"{_KEY}loads.{name}", facts.get(f"{_KEY}failed.{name}"))


def _unknown(said: str | None) -> str:
    """Return the module that is not there, by Lmod's words."""
    match = _UNKNOWN.search(" ".join((said or "").split()))
    return (match[1] or match[2]).replace('"', "").strip() if match else ""


def _missing_libraries(lines: str) -> str:
    found = (line.partition(" ") for line in lines.splitlines())
    words = short("; ".join(f"{library} is missing for {program}" for library, _, program in found))
    return words or "nothing is missing"


def _of_entries(programs: list[str], evidence: Evidence) -> list[str]:
    """Return the module's programs that have the name of an entry's first program."""
    wanted = {install.program.rpartition("/")[2] for install in evidence.plan.installs if install.program}
    wanted |= {"python3", "pip", "conda"} if "python" in wanted else set()
    wanted |= {"mpiexec"} if "mpirun" in wanted else set()
    return [program for program in programs if program.rpartition("/")[2] in wanted]


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"modules"}))
