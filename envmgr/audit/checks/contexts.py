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
from collections.abc import Iterable, Iterator
from functools import partial

from envmgr.audit.look import Look, Said, looked_at, say
from envmgr.audit.model import AskedShell, Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan, PublishedGeneration
from envmgr.audit.shell.shared_shell import elements
from envmgr.audit.table import Steps, fields_of, short
from envmgr.modules.node_paths import SLURM_LINE
from envmgr.nodes.sets import fold
from envmgr.probe.shell import NO_USER, NO_USER_HINT
from envmgr.system.shelltext import assign, script_text

_LINKER = re.compile(r"error loading module|undefined symbol|symbol lookup|cannot open shared object")
_UNKNOWN_SHELLS = frozenset({"fish", "ksh", "ksh93", "mksh", "pwsh", "xonsh", "nu", "elvish"})  # no context has them


def probe(plan: AuditPlan) -> ProbeTexts:
    return {"context": assign(first=plan.first) + script_text(__file__, "context.sh")}


def judge(evidence: Evidence) -> Rows:
    for shell in evidence.each_shell():
        yield from looked_at(partial(_of_shell, shell), shell.fleet, evidence, shell)
    if evidence.alone:
        yield from _no_module_at_all(evidence)
    if "ssh" in evidence.ways and "root" not in evidence.plan.accounts and not evidence.plan.request.here:
        yield evidence.say("not_root", evidence.ways["ssh"].nodes)
    if unknown := sorted(_UNKNOWN_SHELLS.intersection(evidence.plan.shells)):
        yield evidence.say("unknown_shells", shells=", ".join(unknown))


def _of_shell(shell: AskedShell, look: Look) -> Iterator[Said]:
    evidence, end = look.evidence, look.get("end", "absent")
    if end != "absent":
        no_user = end.startswith(NO_USER)
        fix = NO_USER_HINT if no_user else f"start such a shell by hand on the node, as {shell.user}"
        yield say("ended", end=end, traced="" if no_user else ":exec :exit :return", fix=fix)
    if look.has("modulepath"):
        for fact, after in (("path_brought", ""), ("path_loaded", f"after `module load {evidence.plan.first}` ")):
            if look.has(fact):
                yield say("bad_path", path=look.get(fact) or "empty", after=after)
        if not evidence.alone:
            yield from _module_command(shell, look)
    if text := look.get("noise"):
        greets = ("bash-interactive",) if shell.context.way == "slurm" else ("bash-login", "bash-interactive", "zsh")
        yield say("prints", severity="note" if shell.context.shell in greets else "warning", text=text)


def _no_module_at_all(evidence: Evidence) -> Rows:
    """Yield that no login shell has a `module`. One that only some nodes lack is compared by the check `inventory`."""
    logins = [s.fleet.by_value(f"{s.key}module") for s in evidence.each_shell() if s.context.name == "bash-login"]
    if any(logins) and {value for login in logins for value in login} == {"no"}:
        nodes = dict.fromkeys(node for login in logins for node in login.get("no", ()))
        yield evidence.say("no_module_at_all", nodes, evidence.user_login)


def _again(shell: AskedShell, nodes: Iterable[str], after: str = "") -> Steps:
    """Return how a shell gets node-setup's files again."""
    command = f"envmgr node-setup --apply --nodes {fold(nodes)}"
    context = shell.context
    if context.export == "NONE" or (context.step and context.shell == "bash"):  # by TaskProlog, or not at all
        return Steps(look=f"`{SLURM_LINE}` in slurm.conf of the node, then `scontrol reconfigure`; `{command}`")
    return Steps(run=command, at="here", look=after)


def _module_command(shell: AskedShell, look: Look) -> Iterator[Said]:
    published, module, numbers = look.evidence.published, look.get("module"), _in_path(look)
    if module == "no" and shell.context.shell != "wrap":  # which reads no file that could define it
        yield say("no_module", hint=partial(_again, shell, after="is Lmod installed there?"))
    if module == "another program's":
        _, line, file = fields_of(look.get("module_from"), 3)
        yield say("another_module", place=f", of {file}:{line}" if file.startswith("/") else "")
    entry, said = look.evidence.plan.first, look.get("loads", "yes")
    if published is None:
        return
    fails = said != "yes" and f"loading.failed.{entry}" not in look.facts  # which `loading` reports
    if module == "yes" and numbers and fails:
        cause = "LD_LIBRARY_PATH LUA_CPATH LUA_PATH" if _LINKER.search(said) else ""
        yield say("not_loaded", entry=entry, said=short(" ".join(said.split())) or "and says nothing", cause=cause)
    yield from _generations(shell, look, numbers, published)


def _in_path(look: Look) -> list[str]:
    """Return the generations that MODULEPATH has: numbers, or `current`."""
    pattern = re.compile(re.escape(f"{look.evidence.site.prefix}/") + r"(?:generations/([0-9]{4,})|(current))/modules")
    matches = (pattern.fullmatch(part) for part in elements(look.get("modulepath")))
    return [m[1] or m[2] for m in matches if m]


def _generations(shell: AskedShell, look: Look, numbers: list[str], published: PublishedGeneration) -> Iterator[Said]:
    wanted, prefix = published.record.number, look.evidence.site.prefix
    shown = " and ".join(f"generation {int(n)}" if n.isdecimal() else f"{prefix}/{n}" for n in numbers)
    alone, fix = numbers[0] if len(numbers) == 1 else "", partial(_again, shell)
    if not numbers:
        modulepath = short(look.get("modulepath")) or "it is empty"
        yield say("no_generation", hint=fix, modulepath=modulepath, wanted=wanted)
    elif not alone.isdecimal():
        yield say("another_generation", hint=fix, shown=shown, wanted=wanted)
    elif int(alone) == wanted:
        return
    elif int(alone) not in published.kept:
        yield say("not_kept", shown=shown, wanted=wanted)
    elif shell.context.export == "ALL":
        yield say("inherited", shown=shown, wanted=wanted)
    elif look.facts.get("current", f"generations/{wanted:04d}") == f"generations/{wanted:04d}":
        # else `current` itself is stale there, which the check `generation` reports
        yield say("another_generation", hint=fix, shown=shown, wanted=wanted)


CHECK = Check(judge=judge, probe=probe, loads=True)
