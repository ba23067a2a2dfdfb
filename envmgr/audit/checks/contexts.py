"""MODULEPATH and the `module` command, in every context, for root and for an ordinary user.

The contexts are login bash, bash at a terminal, bash as sshd starts it for a command, csh, zsh, and real batch jobs.
Jobs are submitted with the submitting shell's environment and with --export=NONE.

Each context must start, and have Lmod's `module` command, which must load an entry there. A `#!/bin/sh` job has it
after it sources Lmod's init/sh. MODULEPATH must have exactly one generation of the prefix: the published one. A job
that inherited an older generation that is still kept runs with what it was submitted with, which is a note. Empty
parts, repetitions and trailing slashes do not count.

Also reported is a start-up file that prints something into every ssh command: it breaks scp, rsync and programs that
read the command's output.
"""

from __future__ import annotations

import re

from envmgr.audit.model import AskedShell, Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.shared_shell import elements
from envmgr.audit.table import Steps, fields_of, short
from envmgr.modules.node_paths import SLURM_LINE
from envmgr.nodes.sets import fold
from envmgr.probe.model import Facts
from envmgr.probe.shell import NO_USER, NO_USER_HINT
from envmgr.system.shelltext import assign, script_text

_LINKER = re.compile(r"error loading module|undefined symbol|symbol lookup|cannot open shared object")
_UNKNOWN_SHELLS = frozenset({"fish", "ksh", "ksh93", "mksh", "pwsh", "xonsh", "nu", "elvish"})  # no context has them


def probe(plan: AuditPlan) -> ProbeTexts:
    return {"context": assign(first=plan.first) + script_text(__file__, "context.sh")}


def judge(evidence: Evidence) -> Rows:
    for shell in evidence.each_shell():
        yield from _of_shell(shell, evidence)
    if evidence.alone:
        yield from _no_module_at_all(evidence)
    yield from _prints(evidence)
    if "ssh" in evidence.ways and "root" not in evidence.plan.accounts and not evidence.plan.request.here:
        yield evidence.say("not_root", evidence.ways["ssh"].nodes)
    if unknown := sorted(_UNKNOWN_SHELLS.intersection(evidence.plan.shells)):
        yield evidence.say("unknown_shells", shells=", ".join(unknown))


def _of_shell(shell: AskedShell, evidence: Evidence) -> Rows:
    for end, nodes in shell.by_value("end").items():
        if end != "absent":
            no_user = end.startswith(NO_USER)
            fix = NO_USER_HINT if no_user else f"start such a shell by hand on the node, as {shell.user}"
            yield evidence.say("ended", nodes, shell, end=end, traced="" if no_user else ":exec :exit :return", fix=fix)
    probed = shell.having("modulepath")
    for fact, after in (("path_brought", ""), ("path_loaded", f"after `module load {evidence.plan.first}` ")):
        for path, nodes in probed.by_value(fact).items():
            yield evidence.say("bad_path", nodes, shell, path=path or "empty", after=after)
    if not evidence.alone:
        yield from _module_command(probed, evidence)
        yield from _generations(probed, evidence)


def _no_module_at_all(evidence: Evidence) -> Rows:
    """Yield that no login shell has a `module`. One that only some nodes lack is compared by the check `inventory`."""
    logins = [shell.having("module") for shell in evidence.each_shell() if shell.context.name == "bash-login"]
    nodes = [node for shell in logins for node in shell.fleet.nodes]
    if nodes and {value for shell in logins for value in shell.by_value("module")} == {"no"}:
        yield evidence.say("no_module_at_all", dict.fromkeys(nodes), evidence.user_login)


def _again(nodes: tuple[str, ...], shell: AskedShell, after: str = "") -> Steps:
    """Return how a shell gets node-setup's files again."""
    command = f"envmgr node-setup --apply --nodes {fold(nodes)}"
    context = shell.context
    if context.export == "NONE" or (context.step and context.shell == "bash"):  # by TaskProlog, or not at all
        return Steps(look=f"`{SLURM_LINE}` in slurm.conf of the node, then `scontrol reconfigure`; `{command}`")
    return Steps(run=command, at="here", look=after)


def _module_command(shell: AskedShell, evidence: Evidence) -> Rows:
    found = shell.by_value("module")
    if (nodes := found.get("no", ())) and shell.context.shell != "wrap":  # which reads no file that could define it
        yield evidence.say("no_module", nodes, shell, hint=_again(nodes, shell, "is Lmod installed there?"))
    others = shell.only(lambda facts: facts.get(f"{shell.key}module") == "another program's")
    for defined, nodes in others.by_value("module_from", default="").items():
        _, line, file = fields_of(defined, 3)
        yield evidence.say("another_module", nodes, shell, place=f", of {file}:{line}" if file.startswith("/") else "")
    if evidence.published is not None:
        yield from _not_loaded(shell, evidence)


def _not_loaded(shell: AskedShell, evidence: Evidence) -> Rows:
    """Yield nodes on which the first entry is not loaded, if the check `loading` does not report that."""
    usable = shell.only(
        lambda facts: facts.get(f"{shell.key}module") == "yes" and bool(_in_path(facts, shell, evidence))
    )
    entry = evidence.plan.first
    reported = usable.fleet.only(lambda facts: f"loading.failed.{entry}" in facts).nodes
    for said, nodes in usable.by_value("loads").items():
        if said != "yes" and not set(nodes) & set(reported):
            cause = "LD_LIBRARY_PATH LUA_CPATH LUA_PATH" if _LINKER.search(said) else ""
            words = short(" ".join(said.split())) or "and says nothing"
            yield evidence.say("not_loaded", nodes, shell, entry=entry, said=words, cause=cause)


def _in_path(facts: Facts, shell: AskedShell, evidence: Evidence) -> list[str]:
    """Return the generations that MODULEPATH has: numbers, or `current`."""
    pattern = re.compile(re.escape(f"{evidence.site.prefix}/") + r"(?:generations/([0-9]{4,})|(current))/modules")
    matches = (pattern.fullmatch(part) for part in elements(facts.get(f"{shell.key}modulepath", "")))
    return [m[1] or m[2] for m in matches if m]


def _generations(shell: AskedShell, evidence: Evidence) -> Rows:
    if evidence.published is None:
        return
    wanted = evidence.published.record.number
    for group in shell.fleet.groups:
        nodes, numbers = group.nodes, _in_path(group.facts, shell, evidence)
        if numbers == [f"{wanted:04d}"]:
            continue
        each = (f"generation {int(n)}" if n.isdecimal() else f"{evidence.site.prefix}/{n}" for n in numbers)
        shown = " and ".join(each)
        alone, fix = numbers[0] if len(numbers) == 1 else "", _again(nodes, shell)
        if not numbers:
            modulepath = short(group.facts[f"{shell.key}modulepath"]) or "it is empty"
            yield evidence.say("no_generation", nodes, shell, hint=fix, modulepath=modulepath, wanted=wanted)
        elif not alone.isdecimal():
            yield evidence.say("another_generation", nodes, shell, hint=fix, shown=shown, wanted=wanted)
        elif int(alone) not in evidence.published.kept:
            yield evidence.say("not_kept", nodes, shell, shown=shown, wanted=wanted)
        elif shell.context.export == "ALL":
            yield evidence.say("inherited", nodes, shell, shown=shown, wanted=wanted)
        elif group.facts.get("current", f"generations/{wanted:04d}") == f"generations/{wanted:04d}":
            # else `current` itself is stale there, which the check `generation` reports
            yield evidence.say("another_generation", nodes, shell, hint=fix, shown=shown, wanted=wanted)


def _prints(evidence: Evidence) -> Rows:
    """Yield the text that start-up files print."""
    for shell in evidence.each_shell():
        at_login = shell.context.shell in ("bash-login", "bash-interactive", "zsh")
        for text, nodes in shell.by_value("noise").items():
            yield evidence.say("prints", nodes, shell, "note" if at_login else "warning", text=text)


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"modules"}), loads=True)
