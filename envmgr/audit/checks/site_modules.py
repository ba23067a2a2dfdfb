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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from envmgr.audit.compare.between_nodes import QUORUM, Values, drift
from envmgr.audit.fit.install_facts import start_fault
from envmgr.audit.model import Check, Evidence, Found, Row
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.shared_shell import changed_lines, module_show, opened, shared, without_host
from envmgr.audit.wording import fields_of, short
from envmgr.modules.nodesetup import open_hint
from envmgr.probe.model import Facts, Fleet, ProbeStage
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


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:
    named = "" if plan.modules == ("all",) else " ".join(plan.modules)
    many = plan.deep or plan.modules == ("all",)
    given = assign(
        site_modules_most=_MANY if many else _ALONE if plan.alone else _FEW,
        site_modules_named=named,
        site_modules_seconds=max(_LEAST, plan.seconds // 2),
    )
    return {"login": opened(plan.day) + shared("named_paths") + given + script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Iterator[Row]:
    fleet = evidence.shells
    if cut := fleet.by_value(f"{_KEY}cut").get(_YES):
        yield Found(
            "note",
            "the sample",
            "not all of it was loaded: no time for more, or two did not end",
            "modules that load",
            "`--modules NAME` looks at one; `--node-timeout SECONDS` gives more time",
            cut,
        )
    if unlisted := fleet.by_value(f"{_KEY}unlisted").get(_YES):
        yield Found(
            "warning",
            "the sample",
            "not looked at: no end of `module avail` in 10 s",
            "a list of modules",
            "a cache for the modules (Lmod's `update_lmod_system_cache_files`)? a file server that does not answer?",
            unlisted,
        )
    for odd, nodes in fleet.by_value(f"{_KEY}odd").items():
        yield Found(
            "note",
            "the sample",
            f"not loaded: {short(', '.join(odd.splitlines()))}",
            "names without blanks and signs of shells",
            "`module load` with that name in quotes, by hand",
            nodes,
        )
    names = sorted({name for group in fleet.groups for name in _names(group.facts)})
    for name in names:
        told: set[str] = set()
        here = frozenset(fleet.by_value(f"{_KEY}here.{name}").get("loads", ()))
        for said, nodes in fleet.by_value(f"{_KEY}failed.{name}").items():
            if finding := _fault(name, " ".join(said.split()), nodes, in_login=here.issuperset(nodes)):
                told |= set(nodes)
                yield replace(finding, severity="error") if name in evidence.plan.modules else finding
        loads = fleet.only(lambda facts, name=name: name in _names(facts))  # type: ignore[misc]
        if name in evidence.plan.modules and all(_is_unknown(name, _loads(name, g.facts)) for g in loads.groups):
            yield Found(
                "error",
                name,
                "there is no module of this name",
                "one that `module avail` lists",
                "it was named by `--modules`",
                loads.nodes,
            )
            continue
        if not told:
            yield from drift(
                name,
                loads.by(lambda facts, name=name: _loads(name, facts)),  # type: ignore[misc]
                evidence,
                what="loads",
                sampled=True,
                say=lambda said: "it loads" if said == _YES else f"cannot be loaded: {short(' '.join(said.split()))}",
                hint=f"on the node: `module load {name}`",
            )
        for lines, nodes in loads.by_value(f"{_KEY}brings.{name}").items():
            programs = _also(lines.splitlines(), evidence)
            if programs:
                yield Found(
                    "note",
                    name,
                    f"brings {short(', '.join(programs))}: loaded after an entry, that comes before the entry's",
                    "programs that no entry has",
                    f"load entries after {name}; `family(…)` in its modulefile lets Lmod say so, or replace one by the other",
                    nodes,
                )
        if hung := loads.by_value(f"{_KEY}hung.{name}").get(_YES):
            yield Found(
                "warning",
                name,
                "what it brings was not looked at: no end in 20 s",
                "software that can be read",
                "does the file server of its software answer? each program of it waits, too",
                hung,
            )
        yield from _effects(name, loads, evidence)
        yield from _brought(name, loads, evidence)
        yield from _starts(name, loads, evidence)
        loaded = loads.only(lambda facts, name=name: _loads(name, facts) == _YES)  # type: ignore[misc]
        yield from drift(
            name,
            loaded.by_value(f"{_KEY}lacks.{name}", default=""),
            evidence,
            what="libraries",
            sampled=True,
            say=_lacks,
            expect=lambda _right, _value: "the libraries that its programs need",
            hint="install the package of that library on the node, as on the others",
        )


_YES = "yes"
_CLOSED = "Empty or non-existent file"  # Lmod's message for a modulefile that the user may not read
_ENDLESS = "no end in 10 s"


def _effects(name: str, fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    """Yield the differences between nodes in what loading the module sets.

    A node's own name in a value, a time, and a value that differs on each node are no difference.
    """
    values = _nameless(fleet.by_value(f"{_KEY}sets.{name}"), fleet)
    passing = _passing(values)
    yield from drift(
        name,
        _without(values, passing),
        evidence,
        what="environment",
        sampled=True,
        hint=f"on the node: `{module_show(name)}`; the same modulefile, and the same Lmod?",
        say=lambda text: f"it sets {short(changed_lines(text, ''))}",
        told=lambda of: f"it gives another environment: {short(changed_lines(of.value, of.right))}",
        expect=lambda _right, _value: "the same environment",
    )


_TIMES = re.compile(r"\b1[0-9]{9}\b|\b[0-2]?[0-9]:[0-5][0-9]:[0-5][0-9]\b")


def _nameless(values: Values, fleet: Fleet) -> dict[str, tuple[str, ...]]:
    """Return the values with NODE for a node's own name and TIME for a time.

    Texts that are alike but for these become one value.
    """
    found: dict[str, tuple[str, ...]] = {}
    for text, nodes in values.items():
        shared = _TIMES.sub("TIME", without_host(text, nodes, fleet))
        found[shared] = (*found.get(shared, ()), *nodes)
    return found


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
    return frozenset(many - {"PATH", "LD_LIBRARY_PATH"})


def _without(values: Values, names: frozenset[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for text, nodes in values.items():
        kept = "\n".join(line for line in text.splitlines() if line.partition("=")[0] not in names)
        found[kept] = (*found.get(kept, ()), *nodes)
    return found


def _brought(name: str, fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    """Yield the differences in what the module names and brings: folders that are missing or closed, and programs."""
    looked = fleet.only(lambda facts: f"{_KEY}looked.{name}" in facts)
    values = _nameless(looked.by_value(f"{_KEY}has.{name}", default=""), fleet)
    closed = sorted(
        {line.removeprefix("! ") for value in values for line in value.splitlines() if line.startswith("! ")}
    )
    hint = "install, copy or mount its software on that node as on the others"
    if closed:
        hint = f"{open_hint(evidence.site, closed[:8], whom='users')}; as restricted as on the others"
    yield from drift(
        name,
        values,
        evidence,
        what="brings",
        sampled=True,
        say=lambda text: _missing(text, "") or "what it names is there",
        told=lambda of: _missing(of.value, of.right),
        expect=lambda _right, _value: "what it names is there, with the same programs",
        hint=hint,
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


def _starts(name: str, fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    """Yield faults of the first program that the module brings. If it starts nowhere, nodes are not compared."""
    faults: dict[str, tuple[str, ...]] = {}
    for text, nodes in _nameless(fleet.by_value(f"{_KEY}starts.{name}"), fleet).items():
        status, program, said = fields_of(text, 3)
        fault = start_fault(status, short(said))
        shown = f"{program} {fault}" if fault and status != "124" else ""
        faults[shown] = (*faults.get(shown, ()), *nodes)
    if "" in faults:
        yield from drift(
            name,
            faults,
            evidence,
            what="first program",
            sampled=True,
            say=lambda fault: fault or "its first program starts",
            hint=f"on the node: `module load {name}`, then that program; is its package, or its mount, there as on the others?",
        )
        return
    for fault, nodes in faults.items():
        yield Found(
            "warning",
            name,
            fault,
            "a program that starts",
            f"on a node: `module load {name}`, then that program; build it for this system, or take the module away",
            nodes,
        )


def _names(facts: Facts) -> set[str]:
    keys = (f"{_KEY}loads.", f"{_KEY}failed.")
    return {key.removeprefix(start) for key in facts for start in keys if key.startswith(start)}


def _loads(name: str, facts: Facts) -> str | None:
    return facts.get(f"{_KEY}loads.{name}", facts.get(f"{_KEY}failed.{name}"))


def _is_unknown(name: str, said: str | None) -> bool:
    match = _UNKNOWN.search(" ".join((said or "").split()))
    return match is not None and (match[1] or match[2]).replace('"', "").strip() == name


def _lacks(lines: str) -> str:
    found = (line.partition(" ") for line in lines.splitlines())
    return (
        short("; ".join(f"{library} is missing for {program}" for library, _, program in found)) or "nothing is missing"
    )


def _also(programs: list[str], evidence: Evidence) -> list[str]:
    """Return the module's programs that have the name of an entry's first program."""
    own = {install.program.rpartition("/")[2] for install in evidence.plan.installs if install.program}
    wanted = (
        own | ({"python3", "pip", "conda"} if "python" in own else set()) | ({"mpiexec"} if "mpirun" in own else set())
    )
    return [program for program in programs if program.rpartition("/")[2] in wanted]


def _fault(name: str, said: str, nodes: tuple[str, ...], *, in_login: bool) -> Found | None:
    """Return the finding for a faulty modulefile, by Lmod's words, or None if the module refuses in words of its own.

    A module that loads in login shells needs what their start-up files set. That is a note, because other shells may
    have it, too.
    """
    if said == _ENDLESS:
        return Found(
            "warning",
            name,
            said,
            "a module that loads",
            f"on the node: `timeout 20 bash -lc 'module load {name}'`; a server that does not answer, or modules that load each other again and again?",
            nodes,
        )
    if match := _UNKNOWN.search(said):
        wanted = (match[1] or match[2]).replace('"', "").strip()
        if wanted == name:  # it is listed, and not found: comparing nodes reports it
            return None
        found = f"needs {short(wanted)}, which is not there"
        hint = f"let the modulefile name what there is, put {short(wanted)} back, or take {name} away: `{module_show(name)}`"
    elif (match := _BROKEN.search(said)) and _CLOSED not in said:
        found = f"ends in an error: {short(match[1] or match[2] or '')}"
        hint = (
            f'mend the modulefile: a variable that not all shells have needs a default (`os.getenv("NAME") or …`); '
            f"""`ssh {nodes[0]} "bash -lc 'module load {name}'"` shows the error"""
        )
    else:
        return None
    if in_login:
        found = f"in a clean environment it {found}; in login shells it loads"
    return Found(
        "note" if in_login else "warning", name, found, "a module that can be loaded in every shell", hint, nodes
    )


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"installs", "modules"}))
