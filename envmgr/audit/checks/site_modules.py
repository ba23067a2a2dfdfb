"""Modules outside the prefix load: a sample of those in the users' MODULEPATH, one by one on every node.

In the ordinary user's login shell, each module is loaded in a clean environment and within ten seconds. The sample has
eight modules, or 24 where nothing is published, and others each day. `--deep` loads all (500 at most). Where nothing is
published, `--modules` names the modules instead. A module of a folder that another module opens is drawn like the
others, and loaded after that module.

The check starts the first program (`--version`), and ends what modules and programs leave running. What loading sets, and
which of the folders and programs that it names are there, is compared in the inventory. A node's name, a time, and a
value that differs on each node are no difference.

Reported wherever they occur:

- a module that names another module which is not there;
- a modulefile that ends in an error of Lua or Tcl, such as one that needs a variable which only login shells have;
- a module whose loading does not end.

Reported by comparing nodes: a module that loads only on some nodes. A refusal in a module's own
words (a licence, a group, another module that must be loaded first) is the site's choice, where all nodes report the
same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from operator import itemgetter

from envmgr.audit.fit.install_facts import start_fault
from envmgr.audit.look import Look, Said, looked_at, say
from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.shared_shell import module_show
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
    many = plan.request.deep or plan.modules == ("all",)
    given = assign(
        site_modules_most=_MANY if many else _ALONE if plan.alone else _FEW,
        site_modules_named=named,
        site_modules_seconds=max(_LEAST, plan.seconds // 2),
    )
    return {"login": given + script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Rows:
    fleet = evidence.shells
    for name in sorted({*fleet.names(f"{_KEY}loads."), *fleet.names(f"{_KEY}failed.")}):
        loads = fleet.only(lambda facts, name=name: _loads(name, facts) is not None)  # type: ignore[misc]
        yield from _module(name, loads, evidence)


def _module(name: str, fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield all that is wrong with one module, by the answers of nodes that tried to load it."""
    yield from looked_at(partial(_faults, name), fleet, evidence)
    if name in evidence.plan.modules and all(_unknown(_loads(name, group.facts)) == name for group in fleet.groups):
        yield evidence.say("unknown", fleet.nodes, name=name)


def _faults(name: str, look: Look) -> Iterator[Said]:
    """Yield the fault of a modulefile, by Lmod's words; none if the module refuses in words of its own. And how its first program fails.

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
    status, program, why = fields_of(look.get(f"{_KEY}starts.{name}"), 3)
    if status != "124" and (fault := start_fault(status, short(why))):
        yield say("no_start", name=name, fault=f"{program} {fault}")


_CLOSED = "Empty or non-existent file"  # Lmod's message for a modulefile that the user may not read
_ENDLESS = "no end in 10 s"


def _loads(name: str, facts: Facts) -> str | None:
    return facts.get(f"{_KEY}loads.{name}", facts.get(f"{_KEY}failed.{name}"))


def _unknown(said: str | None) -> str:
    """Return the module that is not there, by Lmod's words."""
    match = _UNKNOWN.search(" ".join((said or "").split()))
    return (match[1] or match[2]).replace('"', "").strip() if match else ""


CHECK = Check(judge=judge, probe=probe)
