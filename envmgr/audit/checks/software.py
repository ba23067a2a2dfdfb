"""The installs themselves: on every node the ordinary user gets what was published, and it starts.

On each node, the ordinary user must be able to enter the install of every published entry. The install's first program
must be where the publish found it, and the user must be able to read and execute it. If the user cannot, the check
names the first place on the way that keeps them out, by its mode or by an ACL, and nothing else of that install. The first program is the Python
of an entry that has one. Else it is the program with the entry's name, or else the first executable that the entry puts
into PATH. If the entry puts no program there, a file of the entry is checked instead.

In a login shell, each sampled entry (`--modules`) is loaded in a clean environment, where its first program must be
found and start. It is run with `--version`, for five seconds at most; time in which it waits for a processor does not
count.

In every context, one entry is loaded in the shell as it is. Its first program must be the install's, not another file,
a function or an alias, and must start. At a prompt, this must still be so at the next prompt (PROMPT_COMMAND). It must
be so in a csh, a zsh or a bash at a terminal that is started with the entry loaded.

With `--deep`, up to 24 files of 8 MB at most are drawn from the manifest of each sampled entry. They are hashed on
every node through its own mount. The check reports what was not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from envmgr.audit.fit.install_facts import (
    bad_installs,
    covered_by,
    installed_program,
    program_fault,
    start_fault,
    umounts,
)
from envmgr.audit.model import AskedShell, Check, Evidence, ProbeTexts, Rows
from envmgr.audit.openings import open_steps, without_acl_steps
from envmgr.audit.plan import AuditPlan, ExpectedInstall
from envmgr.audit.table import Steps, Where, fields_of
from envmgr.probe.model import Facts, Fleet, Group, ProbeStage, number_in
from envmgr.report import Severity
from envmgr.system.shelltext import assign, script_text, words

START_SECONDS = 5
# Shells that read a file whenever they are started -> the context whose trace shows it.
_INSIDE = {"csh": "csh", "zsh": "zsh", "bash": "bash-interactive"}


def probe(plan: AuditPlan) -> ProbeTexts:
    if not plan.installs:
        return {}
    given = assign(software_seconds=_seconds(plan), software_look=script_text(__file__, "look.sh"))
    arguments = (word for install in plan.installs for word in _arguments(install))
    texts: dict[ProbeStage, str] = {}
    texts["prefix"] = f"{given}set -- {words(*arguments)}\n{script_text(__file__, 'prefix.sh')}"
    start = script_text(__file__, "start.sh")
    limit = assign(software_limit=START_SECONDS, software_most=plan.seconds // 2, software_start=start)
    programs = {install.entry: installed_program(install) for install in plan.installs if install.program}
    sampled = [word for entry in plan.samples if entry in programs for word in (entry, programs[entry])]
    if sampled:
        texts["login"] = f"{limit}set -- {words(*sampled)}\n{script_text(__file__, 'login.sh')}"
        one = assign(software_entry=sampled[0], software_program=sampled[1])
        texts["context"] = f"{limit}{one}{script_text(__file__, 'context.sh')}"
    return texts


def _arguments(install: ExpectedInstall) -> tuple[str, ...]:
    sums = "\n".join(f"{sha256}  {path}" for path, sha256 in (install.sums or {}).items())
    kind = "program" if install.program else "file" if install.file else "folder"
    return install.entry, install.root, install.file, kind, sums


def _seconds(plan: AuditPlan) -> int:
    """Return a third of the seconds that all reads of the prefix may take: other checks run, too."""
    return max(2, plan.seconds // 3)


def judge(evidence: Evidence) -> Rows:
    if evidence.published is None:
        return
    installs = evidence.plan.installs
    for install in installs:
        yield from _install(install, evidence)
    yield from _unseen(evidence)
    programs = {install.entry: install for install in installs if install.program}
    for install in programs.values():
        if install.entry in evidence.plan.samples:
            yield from _starts(install, evidence)
    if first := next((programs[entry] for entry in evidence.plan.samples if entry in programs), None):
        for shell in evidence.each_shell():
            yield from _in_shell(first, replace(shell, fleet=_healthy(first, shell.fleet, evidence)), evidence)
        yield from _inside(first, evidence)
    for install in installs:
        if install.sums:
            yield from _hashes(install, len(install.sums), evidence)


def _healthy(install: ExpectedInstall, fleet: Fleet, evidence: Evidence) -> Fleet:
    """Return the answers of nodes on which the install itself has no fault, as far as any answer of theirs tells."""
    sound = fleet.only(lambda facts: install.entry not in bad_installs(facts))
    bad = {*evidence.fleet.only(lambda facts: install.entry in bad_installs(facts)).nodes}
    left = (Group(group.facts, tuple(node for node in group.nodes if node not in bad)) for group in sound.groups)
    return replace(sound, groups=tuple(group for group in left if group.nodes))


# -- on the node -------------------------------------------------------------------------------------------------------


def _install(install: ExpectedInstall, evidence: Evidence) -> Rows:
    """Yield faults of an install that keep the user from what was published."""
    fleet = evidence.fleet.sound
    entry, file = install.entry, install.file or install.root
    for reason, nodes in fleet.by(lambda facts: bad_installs(facts).get(entry) or None).items():
        if install.outside and not reason.endswith(("Permission denied", "cannot be executed")):
            continue  # the check `outside` reports it
        having = [group.facts for group in fleet.groups if bad_installs(group.facts).get(entry) == reason]
        cover = next(filter(None, (covered_by(install.root, facts) for facts in having)), "")
        stopped = next(filter(None, (facts.get(f"software.stopped.{entry}", "") for facts in having)), "")
        noexec = [facts for facts in having if "noexec" in facts.get("mount.options", "").split(",")]
        if reason.endswith("cannot be executed") and noexec:
            row = "mounted_noexec"
        elif cover:
            row = "covered"
        elif len(nodes) < len(fleet.nodes):
            row = "fault_on_some"
        elif stopped:
            how, mode, owner, place = fields_of(stopped, 4)
            row, denier = "stopped" if how == "mode" else "denied", evidence.table.words.get(how, "")
            hint = _opened(how, place, having[0], evidence)
            yield evidence.say(
                row, nodes, entry=entry, file=file, mode=mode, owner=owner, place=place, denier=denier, hint=hint
            )
            continue
        else:
            row = "closed" if reason.endswith("Permission denied") else "fault_everywhere"
        what, away = cover.replace(" ", " (", 1) + ")", umounts(cover)
        hint = _opened_all(install, evidence) if row == "closed" else Steps()
        point = next((facts["mount.point"] for facts in noexec), "")
        yield evidence.say(
            row, nodes, entry=entry, reason=reason, file=file, what=what, away=away, point=point, hint=hint
        )


def _opened_all(install: ExpectedInstall, evidence: Evidence) -> Steps:
    look = f"`envmgr verify {install.entry}` tells what else was changed"
    return open_steps(evidence.site, [install.root], whom="users", at="server", installs=[install.root], look=look)


def _opened(how: str, place: str, facts: Facts, evidence: Evidence) -> Steps:
    """Return how users can enter or read `place` again: by its mode here, if this host may write there; else on the
    server.
    """
    if how != "mode":
        return without_acl_steps(place, facts, evidence.site)
    options = f"{evidence.controller.get('mount.options', 'ro')},{evidence.controller.get('mount.super', '')}".split(
        ","
    )
    at: Where = "server" if "ro" in options else "here"
    return open_steps(evidence.site, [place], whom="users", at=at, installs=[place])


def _unseen(evidence: Evidence) -> Rows:
    """Yield installs that were not looked at."""
    number = len(evidence.plan.installs)
    ended = evidence.fleet.sound.only(lambda facts: "software.looked.prefix" in facts and "software.user" not in facts)
    for seen, nodes in ended.by_each(lambda facts: [number_in(facts, "software.seen") or 0]).items():
        if seen < number:
            yield evidence.say("unseen", nodes, left=number - seen, number=number, seconds=_seconds(evidence.plan))
    if unknown := [install.entry for install in evidence.plan.installs if not install.file]:
        yield evidence.say("not_recorded", entries=", ".join(unknown))
    ours = (
        install for install in evidence.plan.installs if install.entry in evidence.plan.samples and not install.outside
    )
    if evidence.plan.deep and (unread := [install.entry for install in ours if install.sums is None]):
        yield evidence.say("no_manifest", entries=", ".join(unread))


# -- in shells ---------------------------------------------------------------------------------------------------------


def _starts(install: ExpectedInstall, evidence: Evidence) -> Rows:
    """Yield a first program that does not start in a clean environment."""
    program, name = install.program, _name(install)
    healthy = _healthy(install, evidence.shells, evidence)
    for fault, nodes in healthy.by(lambda facts: program_fault(install, facts) or None).items():
        row = "slow_start" if fault.startswith("no end") else "no_start"
        yield evidence.say(
            row, nodes, entry=install.entry, program=program, name=name, fault=fault, seconds=START_SECONDS
        )


def _name(install: ExpectedInstall) -> str:
    return install.program.rpartition("/")[2]


def _in_shell(install: ExpectedInstall, shell: AskedShell, evidence: Evidence) -> Rows:
    """Yield a first program that is not the install's, or does not start, once the entry is loaded in this shell."""
    entry, path, name = install.entry, installed_program(install), _name(install)
    for said, nodes in shell.by_value("program").items():
        if said.startswith("alias "):
            yield evidence.say("alias", nodes, shell, entry=entry, path=path, said=said, name=said.partition("=")[0])
        elif said != path:
            row = "function" if said == name else "shadowed" if said else "not_found"
            folder = said.rpartition("/")[0]
            yield evidence.say(row, nodes, shell, entry=entry, path=path, said=said, name=name, folder=folder)
    # Another program that fails to start says nothing about the install.
    right = replace(shell, fleet=shell.fleet.where(f"{shell.key}program", path))
    for said, nodes in right.by_value("prompted").items():
        if said != path:
            yield evidence.say("prompted", nodes, shell, entry=entry, path=path, said=said or "not in PATH", name=name)
    for status, nodes in right.by_value("started").items():
        if fault := start_fault(status):
            severity: Severity = "note" if fault.startswith("no end") else "error"
            program = install.program
            yield evidence.say(
                "no_start_there", nodes, shell, severity, entry=entry, path=path, program=program, fault=fault
            )
    unread = replace(shell, fleet=shell.fleet.only(lambda facts: f"{shell.key}modulepath" not in facts))
    if unloaded := unread.by_value("program_unloaded").get("yes"):  # else the check `contexts` reports why
        yield evidence.say("unloaded", unloaded, shell, entry=entry)


def _inside(install: ExpectedInstall, evidence: Evidence) -> Rows:
    """Yield a first program that is not the install's in a csh, zsh or bash that is started with the entry loaded."""
    entry, path, name = install.entry, installed_program(install), _name(install)
    users = {shell.context.name: shell for shell in evidence.each_shell() if shell.account == "user"}
    healthy = _healthy(install, evidence.shells, evidence)
    for kind, context in _INSIDE.items():
        shell = users.get(context)
        for said, nodes in healthy.by_value(f"software.inside.{kind}").items():
            if said != path:
                found = "not in PATH" if said == "none" else said
                yield evidence.say("inside", nodes, shell, entry=entry, path=path, found=found, name=name, kind=kind)


# -- by sha256 ---------------------------------------------------------------------------------------------------------


def _hashes(install: ExpectedInstall, count: int, evidence: Evidence) -> Rows:
    entry = install.entry
    healthy = _healthy(install, evidence.fleet.sound, evidence)
    for said, nodes in healthy.by_value(f"software.differs.{entry}").items():
        unread = [line for line in said.splitlines() if line.endswith("open or read")]
        if unread:
            yield evidence.say("unread", nodes, entry=entry, paths=_paths(unread), root=install.root)
        if other := _paths(line for line in said.splitlines() if line not in unread):
            row = "other_content_on_some" if len(nodes) < len(healthy.nodes) else "other_content"
            yield evidence.say(row, nodes, entry=entry, paths=other)
    for said, nodes in healthy.by_value("software.unhashed").items():
        yield evidence.say("unhashed", nodes, entry=entry, program=said or "sha256sum", count=count)
    late = healthy.only(lambda facts: f"software.hashed.{entry}" not in facts and "software.unhashed" not in facts)
    if late.nodes:
        yield evidence.say("late", late.nodes, entry=entry, count=count, seconds=_seconds(evidence.plan))


def _paths(lines: Iterable[str]) -> str:
    """Return the paths in lines of `sha256sum --check`."""
    return ", ".join(line.partition(": FAILED")[0] for line in lines)


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"published", "modules"}), loads=True)
