"""The installs themselves: on every node the ordinary user gets what was published, and it starts.

On each node, the ordinary user must be able to enter the install of every published entry. The install's first program
must be where the publish found it, and the user must be able to read and execute it. If the user cannot, the check
names the first place on the way that keeps them out, and nothing else of that install. The first program is the Python
of an entry that has one. Else it is the program with the entry's name, or else the first executable that the entry puts
into PATH. If the entry puts no program there, a file of the entry is checked instead.

In a login shell, each sampled entry (`--modules`) is loaded in a clean environment, where its first program must be
found and start. It is run with `--version`, for ten seconds at most.

In every context, one entry is loaded in the shell as it is. Its first program must be the install's, not another file,
a function or an alias, and must start. At a prompt, this must still be so at the next prompt (PROMPT_COMMAND). It must
be so in a csh, a zsh or a bash at a terminal that is started with the entry loaded.

Of that file the size must be as it was, too. No file is hashed: `envmgr verify --nodes` compares installs with their manifests, as nodes see them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from envmgr.audit.fit.install_facts import installed_program, program_fault, start_fault
from envmgr.audit.look import Look, Said, looked_at, say
from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.openings import let_in
from envmgr.audit.plan import AuditPlan, ExpectedInstall
from envmgr.audit.table import Steps, fields_of
from envmgr.probe.model import Fleet, ProbeStage, number_in
from envmgr.report import Severity
from envmgr.system.shelltext import assign, script_text, words

START_SECONDS = 10
# Shells that read a file whenever they are started -> the context whose trace shows it.
_INSIDE = {"csh": "csh", "zsh": "zsh", "bash": "bash-interactive"}


def probe(plan: AuditPlan) -> ProbeTexts:
    if not plan.installs:
        return {}
    seconds = plan.share(3)
    arguments = (word for install in plan.installs for word in _arguments(install))
    look = words(script_text(__file__, "look.sh"), str(seconds), *arguments)
    texts: dict[ProbeStage, str] = {"prefix": f"look_as_user software {seconds + 2} {look}\n"}
    limit = assign(software_limit=START_SECONDS)
    programs = {install.entry: installed_program(install) for install in plan.installs if install.program}
    sampled = [word for entry in plan.samples if entry in programs for word in (entry, programs[entry])]
    if sampled:
        texts["login"] = f"{limit}set -- {words(*sampled)}\n{script_text(__file__, 'login.sh')}"
        one = assign(software_entry=sampled[0], software_program=sampled[1])
        texts["context"] = f"{limit}{one}{script_text(__file__, 'context.sh')}"
    return texts


def _arguments(install: ExpectedInstall) -> tuple[str, ...]:
    kind = "program" if install.program else "file" if install.file else "folder"
    return install.entry, install.root, install.file, str(install.size), kind


def judge(evidence: Evidence) -> Rows:
    if evidence.published is None:
        return
    installs = evidence.plan.installs
    for install in installs:
        yield from _install(install, evidence)
    ended = evidence.fleet.sound.only(lambda facts: "software.looked.prefix" in facts and "software.user" not in facts)
    for seen, nodes in ended.by_each(lambda facts: [number_in(facts, "software.seen") or 0]).items():
        if left := max(0, len(installs) - seen):
            yield evidence.say("unseen", nodes, left=left, number=len(installs), seconds=evidence.plan.share(3))
    programs = {install.entry: install for install in installs if install.program}
    sampled = [programs[entry] for entry in evidence.plan.samples if entry in programs]
    for install in sampled:
        yield from looked_at(partial(_starts, install), _healthy(install, evidence.shells, evidence), evidence)
    for first in sampled[:1]:
        for shell in evidence.each_shell():
            yield from looked_at(partial(_in_shell, first), _healthy(first, shell.fleet, evidence), evidence, shell)
        yield from _inside(first, evidence)


def _healthy(install: ExpectedInstall, fleet: Fleet, evidence: Evidence) -> Fleet:
    """Return the answers of nodes on which the install itself has no fault, as far as any answer of theirs tells."""
    each = (item for of in (fleet, evidence.fleet) for item in of.told.items())
    return fleet.among({*fleet.nodes} - {node for node, facts in each if f"software.bad.{install.entry}" in facts})


# -- on the node -------------------------------------------------------------------------------------------------------


def _install(install: ExpectedInstall, evidence: Evidence) -> Rows:
    """Yield faults of an install that keep the user from what was published."""
    fleet = evidence.fleet.sound
    entry, file = install.entry, f"{install.root}/{install.file}".rstrip("/")
    for reason, nodes in fleet.by(lambda facts: facts.get(f"software.bad.{entry}") or None).items():
        stopped = next(iter(fleet.among(nodes).by_line(f"software.stopped.{entry}")), "")
        mode, owner, place = fields_of(stopped, 3)
        row = "fault_on_some" if len(nodes) < len(fleet.nodes) else "stopped" if stopped else "fault_everywhere"
        hint = let_in(evidence.site, place, mode, at="server", installs=[place]) if row == "stopped" else Steps()
        yield evidence.say(
            row, nodes, entry=entry, reason=reason, file=file, mode=mode, owner=owner, place=place, hint=hint
        )


# -- in shells ---------------------------------------------------------------------------------------------------------


def _starts(install: ExpectedInstall, look: Look) -> Iterator[Said]:
    """Yield a first program that does not start in a clean environment."""
    entry, _, name = _names(install)
    if fault := program_fault(install, look.facts):
        severity, program = _severity(fault), install.program
        yield say("no_start", severity=severity, entry=entry, program=program, name=name, fault=fault)


def _names(install: ExpectedInstall) -> tuple[str, str, str]:
    """Return its entry, and the path and the name of its first program."""
    path = installed_program(install)
    return install.entry, path, path.rpartition("/")[2]


def _severity(fault: str) -> Severity:
    return "note" if fault.startswith("no end") else "error"


def _in_shell(install: ExpectedInstall, look: Look) -> Iterator[Said]:
    """Yield a first program that is not the install's, or does not start, once the entry is loaded in this shell."""
    entry, path, name = _names(install)
    if (said := look.get("program")) != path and look.has("program"):
        found = "a function of the shell" if said == name else said or "not in PATH"
        cause = "" if said == name else name if said.startswith("alias ") else "PATH"
        yield say("another", entry=entry, path=path, name=name, found=found, cause=cause)
    if said != path:
        return  # another program that fails to start says nothing about the install
    if (said := look.get("prompted", path)) != path:
        yield say("prompted", entry=entry, path=path, name=name, found=said or "not in PATH")
    if fault := start_fault(look.get("started")):
        severity, program = _severity(fault), install.program
        yield say("no_start_there", severity=severity, entry=entry, path=path, program=program, fault=fault)


def _inside(install: ExpectedInstall, evidence: Evidence) -> Rows:
    """Yield a first program that is not the install's in a csh, zsh or bash that is started with the entry loaded."""
    entry, path, name = _names(install)
    users = {shell.context.name: shell for shell in evidence.each_shell() if shell.account == "user"}
    healthy = _healthy(install, evidence.shells, evidence)
    for kind, context in _INSIDE.items():
        for said, nodes in healthy.by_value(f"software.inside.{kind}").items():
            if said != path:
                found, shell = "not in PATH" if said == "none" else said, users.get(context)
                yield evidence.say("inside", nodes, shell, entry=entry, path=path, name=name, found=found, kind=kind)


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"published"}), loads=True)
