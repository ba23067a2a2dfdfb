"""MODULEPATH and the `module` command, in every context, for root and for an ordinary user.

The contexts are login bash, bash at a terminal, bash as sshd starts it for a command, csh, zsh, and real batch jobs.
Jobs are submitted with the submitting shell's environment and with --export=NONE.

Each context must have Lmod's `module` command, which must load an entry there. A `#!/bin/sh` job has it after it
sources Lmod's init/sh. MODULEPATH must have exactly one generation of the prefix: the published one. A job that
inherited an older generation that is still kept runs with what it was submitted with, which is a note. Empty parts,
repetitions and trailing slashes do not count.

Also reported:

- a context that cannot be probed; where users cannot open a pseudo-terminal, only that is reported;
- a start-up file that prints something into every ssh command: it breaks scp, rsync and programs that read the
  command's output;
- as a note, a `module avail` that also lists the packages of the entries, although neither the user nor the site asked
  for it;
- as a note, a job that was submitted with --export=NONE and keeps SLURM_EXPORT_ENV: its srun passes nothing on (in
  site.yaml, `slurm: heal_export` decides);
- as a note, a `#!/bin/sh` job that has no function `module`, where no program says what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from envmgr.audit.findings import Loose
from envmgr.audit.model import AskedShell, Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.modulepath import generations_in_path
from envmgr.audit.shell.shared_shell import shared
from envmgr.audit.table import Steps, fields_of, short
from envmgr.modules.node_paths import SLURM_LINE
from envmgr.nodes.sets import fold
from envmgr.probe.model import Facts, ShellContext
from envmgr.probe.shell import NO_USER, NO_USER_HINT
from envmgr.system.shelltext import assign, script_text

_LINKER = re.compile(r"error loading module|undefined symbol|symbol lookup|cannot open shared object")
_UNKNOWN_SHELLS = frozenset({"fish", "ksh", "ksh93", "mksh", "pwsh", "xonsh", "nu", "elvish"})  # no context has them


def probe(plan: AuditPlan) -> ProbeTexts:
    first = plan.samples[0] if plan.samples else ""
    text = assign(first=first) + shared("lmod_config") + script_text(__file__, "context.sh")
    return {"context": text, "node": script_text(__file__, "node.sh")}


def judge(evidence: Evidence) -> Rows:
    no_terminal = frozenset(node for nodes in evidence.fleet.by_value("terminal").values() for node in nodes)
    for shell in evidence.each_shell():
        yield from _of_shell(shell, no_terminal, evidence)
    if evidence.alone:
        yield from _no_module_at_all(evidence)
    yield from _prints(evidence)
    yield from _terminals(evidence)
    if "ssh" in evidence.ways and "root" not in evidence.plan.accounts and not evidence.plan.request.here:
        yield evidence.say("not_root", evidence.ways["ssh"].nodes)
    if unknown := sorted(_UNKNOWN_SHELLS.intersection(evidence.plan.shells)):
        yield evidence.say("unknown_shells", shells=", ".join(unknown))


def _of_shell(shell: AskedShell, no_terminal: frozenset[str], evidence: Evidence) -> Rows:
    yield from _ended(shell, no_terminal, evidence)
    silent = shell.only(lambda facts: not {f"{shell.key}end", f"{shell.key}modulepath"} & facts.keys())
    if silent.fleet.nodes:
        yield evidence.say("silent", silent.fleet.nodes, shell)
    probed = shell.having("modulepath")
    yield from _path(probed, evidence)
    if not evidence.alone:
        yield from _module_command(probed, evidence)
        yield from _told(probed, evidence)
        yield from _generations(probed, evidence)


def _no_module_at_all(evidence: Evidence) -> Rows:
    """Yield that no login shell has a `module`. One that only some nodes lack is compared by the check `inventory`."""
    logins = [shell.having("module") for shell in evidence.each_shell() if shell.context.name == "bash-login"]
    nodes = [node for shell in logins for node in shell.fleet.nodes]
    if nodes and {value for shell in logins for value in shell.by_value("module")} == {"no"}:
        yield evidence.say("no_module_at_all", dict.fromkeys(nodes), evidence.user_login)


# The answer of the shell text, without a number at its end -> the row.
_TERMINALS = {"unmounted": "not_mounted", "link": "closed_by_mount", "device": "closed_device", "full": "all_in_use"}


def _terminals(evidence: Evidence) -> Rows:
    for said, nodes in evidence.fleet.by_value("terminal").items():
        cause, _, number = said.partition(" ")
        yield evidence.say(_TERMINALS.get(cause, "no_terminal"), nodes, said=number or said)


def _ended(shell: AskedShell, no_terminal: frozenset[str], evidence: Evidence) -> Rows:
    """Yield shells that ended before they were probed. Without a terminal, it follows that a shell there does not start."""
    follows = no_terminal if shell.context.shell == "bash-interactive" else frozenset[str]()
    for end, ended in shell.by_value("end").items():
        if end != "absent" and (nodes := tuple(node for node in ended if node not in follows)):
            no_user = end.startswith(NO_USER)
            fix = NO_USER_HINT if no_user else _try(shell.context, evidence.table.words)
            yield evidence.say("ended", nodes, shell, end=end, traced="" if no_user else ":exec :exit :return", fix=fix)


def _try(context: ShellContext, commands: Mapping[str, str]) -> str:
    if context.step:
        command = "srun --pty bash -i" if context.shell == "bash-interactive" else "srun bash -c true"
        return f"try `{command}` in a job of that user on the node"
    return f"try `{commands[context.shell]}` as that user on the node"


def _again(nodes: tuple[str, ...], shell: AskedShell, after: str = "") -> Steps:
    """Return how a shell gets node-setup's files again."""
    command = f"envmgr node-setup --apply --nodes {fold(nodes)}"
    context = shell.context
    if context.export == "NONE" or (context.step and context.shell == "bash"):  # by TaskProlog, or not at all
        return Steps(look=f"`{SLURM_LINE}` in slurm.conf of the node, then `scontrol reconfigure`; `{command}`")
    return Steps(run=command, at="here", look=after)


def _module_command(shell: AskedShell, evidence: Evidence) -> Rows:
    without = shell.only(lambda facts: facts.get(f"{shell.key}module") == "no")
    for mode, nodes in without.by_value("posix", default="").items():
        if shell.context.shell == "wrap":  # it reads no file that could define it: see `bare`
            continue
        if mode:
            yield evidence.say("no_module_posix", nodes, shell)
        else:
            yield evidence.say("no_module", nodes, shell, hint=_again(nodes, shell, "is Lmod installed there?"))
    for value, nodes in shell.by_value("module_alias").items():
        yield evidence.say("alias", nodes, shell, value=value)
    others = shell.only(lambda facts: facts.get(f"{shell.key}module") == "another program's")
    known = {*others.fleet.where(f"{shell.key}tool", "Environment Modules").nodes}
    for found, nodes in others.by_value("module_from", default="").items():
        _, line, file = fields_of(found, 3)
        if file.startswith("/") and not re.search(r"/lmod/|/modules/", file, re.IGNORECASE) and known.isdisjoint(nodes):
            yield evidence.say("another_function", nodes, shell, file=file, line=line)
        else:
            yield evidence.say("another_module", nodes, shell)
    if evidence.published is None:
        return
    usable = shell.only(
        lambda facts: facts.get(f"{shell.key}module") == "yes" and bool(generations_in_path(facts, shell, evidence))
    )
    yield from _not_loaded(usable, evidence)
    for named, wrong in usable.fleet.by(lambda facts: _other_rc(facts, shell, evidence)).items():
        yield evidence.say("other_rc", wrong, shell, hint=_again(wrong, shell), named=named)
    if long := usable.by_value("avail_extensions").get("yes"):
        yield evidence.say("lists_extensions", long, shell)


def _not_loaded(shell: AskedShell, evidence: Evidence) -> Rows:
    """Yield nodes on which the first entry is not loaded, if the check `loading` does not report that."""
    entry = evidence.plan.samples[0] if evidence.plan.samples else ""
    reported = shell.fleet.only(lambda facts: f"loading.failed.{entry}" in facts).nodes
    for said, nodes in shell.by_value("loads").items():
        if said != "yes" and not set(nodes) & set(reported):
            words = short(" ".join(said.split())) or "and says nothing"
            row = "not_linked" if _LINKER.search(said) else "not_loaded"
            yield evidence.say(row, nodes, shell, entry=entry, said=words)


def _other_rc(facts: Facts, shell: AskedShell, evidence: Evidence) -> str | None:
    """Return LMOD_RC if it does not name the cache of the generation in MODULEPATH."""
    numbers = generations_in_path(facts, shell, evidence)
    wanted = {f"{evidence.site.prefix}/generations/{number}/lmodrc.lua" for number in numbers}
    named = facts.get(f"{shell.key}lmod_rc", "")
    return None if wanted & set(named.split(":")) else named or "not set"


def _path(shell: AskedShell, evidence: Evidence) -> Rows:
    """Yield each PATH in which the system's programs are not found, before or after an entry is loaded."""
    for path, nodes in shell.by_value("path_brought").items():
        yield evidence.say("bad_path", nodes, shell, path=short(path) or "empty")
    entry = evidence.plan.samples[0] if evidence.plan.samples else ""
    for path, nodes in shell.by_value("path_loaded").items():
        yield evidence.say("bad_path_after_load", nodes, shell, entry=entry, path=path)


def _told(shell: AskedShell, evidence: Evidence) -> Rows:
    """Yield notes on problems of users' jobs that node-setup's files explain or prevent."""
    usable = shell.only(lambda facts: bool(generations_in_path(facts, shell, evidence)))
    if nodes := usable.by_value("bare").get("nothing"):
        yield evidence.say("told_not_found", nodes, shell)
    heal = evidence.site.slurm.heal_export
    for export, nodes in usable.by_value("export").items():
        if export and "ALL" not in export.upper().split(",") and heal is not False:
            yield evidence.say("not_healed" if heal else "not_exported", nodes, shell, export=export)


def _generations(shell: AskedShell, evidence: Evidence) -> Rows:
    if evidence.published is None:
        return
    wanted = evidence.published.record.number
    for group in shell.fleet.groups:
        nodes, numbers = group.nodes, generations_in_path(group.facts, shell, evidence)
        if numbers == [f"{wanted:04d}"]:
            continue
        shown = " and ".join(str(int(number)) if number.isdecimal() else number for number in numbers)
        fix = _again(nodes, shell)
        if not numbers:
            yield _no_generation(nodes, group.facts, shell, fix, evidence)
        elif len(numbers) > 1:
            yield evidence.say("several_generations", nodes, shell, hint=fix, shown=shown)
        elif numbers == ["current"]:
            yield evidence.say("link", nodes, shell, hint=fix, wanted=wanted)
        elif int(numbers[0]) not in evidence.published.kept:
            yield evidence.say("not_kept", nodes, shell, shown=shown, wanted=wanted)
        elif shell.context.export == "ALL":
            yield evidence.say("inherited", nodes, shell, shown=shown, wanted=wanted)
        elif group.facts.get("current", f"generations/{wanted:04d}") == f"generations/{wanted:04d}":
            # else `current` itself is stale there, which the check `generation` reports
            yield evidence.say("another_generation", nodes, shell, hint=fix, shown=shown, wanted=wanted)


def _no_generation(nodes: tuple[str, ...], facts: Facts, shell: AskedShell, fix: Steps, evidence: Evidence) -> Loose:
    wanted = evidence.published.record.number if evidence.published is not None else 0
    modulepath = short(facts[f"{shell.key}modulepath"]) or "it is empty"
    if f"{shell.key}posix" in facts:
        return evidence.say("no_generation_posix", nodes, shell, modulepath=modulepath, wanted=wanted)
    if f"{shell.key}no_bashrc" in facts and shell.context.name == "bash-ssh":  # not all shells read /etc/bashrc
        file = facts[f"{shell.key}no_bashrc"]
        return evidence.say("no_generation_bashrc", nodes, shell, modulepath=modulepath, wanted=wanted, file=file)
    return evidence.say("no_generation", nodes, shell, hint=fix, modulepath=modulepath, wanted=wanted)


def _prints(evidence: Evidence) -> Rows:
    """Yield the text that start-up files print."""
    for shell in evidence.each_shell():
        at_login = shell.context.shell in ("bash-login", "bash-interactive", "zsh")
        for text, nodes in shell.by_value("noise").items():
            yield evidence.say("prints", nodes, shell, "note" if at_login else "warning", text=text)


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"modules"}), loads=True)
