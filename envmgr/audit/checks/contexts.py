"""MODULEPATH and the `module` command, in every context, for root and for an ordinary user.

The contexts are login bash, bash at a terminal, bash as sshd starts it for a command, csh, zsh, and real batch jobs.
Jobs are submitted with the submitting shell's environment and with --export=NONE.

Each context must have Lmod's `module` command, which must load an entry there. A `#!/bin/sh` job has it after it
sources Lmod's init/sh. MODULEPATH must have exactly one generation of the prefix: the published one. A job that
inherited an older generation that is still kept runs with what it was submitted with, which is a note. Other parts of
MODULEPATH are compared between nodes, and between each context and login bash on the same node. Empty parts,
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
from collections.abc import Iterator, Mapping, Sequence

from envmgr.audit.causes import Traced, TraceQuestion, Traces, set_by
from envmgr.audit.compare.between_nodes import as_on, compare
from envmgr.audit.model import Check, Evidence, Found, Row
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.modulepath import beside_generation, generations_in_path, in_other_contexts
from envmgr.audit.shell.shared_shell import shared
from envmgr.audit.shell.start_hints import (
    module_commands,
    posix_hint,
    start_hint,
    terminal,
    terminal_findings,
    without_terminal,
)
from envmgr.audit.wording import short
from envmgr.modules.nodesetup import SLURM_LINE
from envmgr.nodes.sets import fold
from envmgr.probe.model import Facts, Fleet, ProbeStage, ShellAccount, ShellContext
from envmgr.probe.shell import context_key
from envmgr.report import Severity
from envmgr.system.shelltext import assign, script_text

_LINKER = re.compile(r"error loading module|undefined symbol|symbol lookup|cannot open shared object")
_LINKED = ("LD_LIBRARY_PATH", "LUA_CPATH", "LUA_PATH")
_PRINTS = (":echo", ":printf", ":cat")
_UNKNOWN_SHELLS = frozenset({"fish", "ksh", "ksh93", "mksh", "pwsh", "xonsh", "nu", "elvish"})  # no context has them


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:
    first = plan.samples[0] if plan.samples else ""
    text = assign(first=first) + shared("lmod_config") + script_text(__file__, "context.sh")
    return {"context": text, "node": terminal()}


def judge(evidence: Evidence) -> Iterator[Row]:
    yield from _all(evidence)
    yield from terminal_findings(evidence)
    if "ssh" in evidence.ways and "root" not in evidence.plan.accounts:
        yield _finding(
            "note",
            "root",
            f"not looked at: the audit logs in as {evidence.plan.user}",
            "root's shells, too",
            "`transport: {user: root}`, or `become: sudo -n`, in site.yaml",
            evidence.ways["ssh"].nodes,
        )
    if unknown := sorted(_UNKNOWN_SHELLS.intersection(evidence.plan.shells)):
        yield _finding(
            "note",
            "login shells",
            f"not looked at: users with jobs have {', '.join(unknown)}",
            "bash, zsh, csh or tcsh",
            "what such a shell makes of modules: `module avail` in one, by hand",
            (),
        )


def _all(evidence: Evidence) -> Iterator[Row]:
    for context, account, fleet in evidence.contexts():
        key = context_key(context, account)
        where = evidence.shell(context, account)
        follows = without_terminal(evidence) if context.shell == "bash-interactive" else frozenset()
        for end, ended in fleet.by_value(f"{key}end").items():
            if end != "absent" and (nodes := tuple(node for node in ended if node not in follows)):
                hint = start_hint(nodes, context, account, end)
                yield _finding("error", where, f"cannot be probed: {end}", "a shell that starts", hint, nodes)
        yield from _absent(context, account, where, fleet, evidence)
        silent = fleet.only(lambda facts, key=key: not {f"{key}end", f"{key}modulepath"} & facts.keys())  # type: ignore[misc]
        if silent.nodes:
            yield _finding("error", where, "cannot be probed: it said nothing", "a shell that starts", "", silent.nodes)
        probed = fleet.only(lambda facts, key=key: f"{key}modulepath" in facts)  # type: ignore[misc]
        if not evidence.alone:
            yield from _module_command(context, account, where, probed, evidence)
        yield from _path(context, account, where, probed, evidence)
        yield from _told(key, where, probed, evidence)
        yield from _generations(context, account, where, probed, evidence)
        yield from beside_generation(context, account, where, probed, evidence)
    if evidence.alone:
        yield from module_commands(evidence)
    yield from in_other_contexts(evidence)
    yield from _noise(evidence)


def _absent(
    context: ShellContext, account: ShellAccount, where: str, fleet: Fleet, evidence: Evidence
) -> Iterator[Row]:
    """Yield a shell that a node lacks and similar nodes have: scripts for that shell do not start there.

    A shell that no node has is not required.
    """
    if context.shell == "zsh" and "zsh" not in evidence.plan.shells:
        return  # not started where no account of the node has it
    key = context_key(context, account)
    there = fleet.by(lambda facts: "no" if facts.get(f"{key}end") == "absent" else "yes")
    for of in compare(there, evidence).outliers:
        if of.value == "no":
            hint = f"install {'tcsh' if context.shell == 'csh' else context.shell} there, {as_on(of.others)}"
            yield _finding(
                "warning", where, f"{context.shell} is not there", "the shells that its like have", hint, of.nodes
            )


def _mend(nodes: tuple[str, ...], context: ShellContext, account: ShellAccount, name: str, after: str = "") -> Traced:
    """Return the hint that fixes a shell: take away the line that undoes node-setup there, or else run node-setup."""
    again = _node_setup(nodes, context)

    def words(traces: Traces) -> str:
        if place := traces.culprit(nodes, context, account, name):
            return f"{place} sets {name} after envmgr does: take that line away{after}"
        if what := traces.before_ours(nodes, context, account):
            return f"{what} before node-setup's is read, which is there: take that line away, or move it below{after}"
        return f"{again}{after}"

    return Traced((TraceQuestion(nodes[0], context, account, ("LMOD_RC", "MODULEPATH", ":left")),), words)


def _node_setup(nodes: tuple[str, ...], context: ShellContext) -> str:
    if context.export == "NONE" or (context.step and context.shell == "bash"):
        return f"`{SLURM_LINE}` in slurm.conf of the node, then `scontrol reconfigure`; `envmgr node-setup --apply --nodes {fold(nodes)}`"
    return f"`envmgr node-setup --apply --nodes {fold(nodes)}`"


def _module_command(
    context: ShellContext, account: ShellAccount, where: str, fleet: Fleet, evidence: Evidence
) -> Iterator[Row]:
    key = context_key(context, account)
    hint: str | Traced
    without = fleet.only(lambda facts: facts.get(f"{key}module") == "no")
    for mode, nodes in without.by_value(f"{key}posix", default="").items():
        if context.shell == "wrap":  # it reads no file that could define it: see `bare`
            continue
        hint = (
            posix_hint(nodes, context, account)
            if mode
            else _mend(nodes, context, account, "module", "; is Lmod installed there?")
        )
        yield _finding("error", where, "no `module` command", "Lmod's `module`", hint, nodes)
    other = fleet.by_value(f"{key}module").get("another program's")
    if other:
        hint = "is Environment Modules installed there? `type module` on the node; take its file in /etc/profile.d away"
        yield _finding("error", where, "`module` is another program's", "Lmod's `module`", hint, other)
    published = evidence.published
    if published is None:
        return
    usable = fleet.only(
        lambda facts: facts.get(f"{key}module") == "yes" and bool(generations_in_path(facts, key, evidence))
    )
    entry = evidence.plan.samples[0] if evidence.plan.samples else ""
    for said, nodes in usable.by_value(f"{key}loads").items():
        if said != "yes" and not any(
            f"loading.failed.{entry}" in g.facts for g in usable.groups if set(g.nodes) & set(nodes)
        ):
            found = f"`module load {entry}` does not load it: {short(' '.join(said.split())) or 'and says nothing'}"
            hint = "in that shell, by hand: `module --debug load`"
            if _LINKER.search(said):
                hint = _linked(nodes, context, account)
            yield _finding("error", where, found, "the module", hint, nodes)
    for found, wrong in usable.by(lambda facts: _wrong_rc(facts, key, evidence)).items():
        hint = _mend(wrong, context, account, "LMOD_RC")
        yield _finding("warning", where, found, "LMOD_RC names the cache of the same generation", hint, wrong)
    if long := usable.by_value(f"{key}avail_extensions").get("yes"):
        found = "`module avail` also lists each package of each entry: LMOD_AVAIL_EXTENSIONS is not set"
        hint = f"`envmgr node-setup --apply --nodes {fold(long)}`"
        yield _finding(
            "note", where, found, "LMOD_AVAIL_EXTENSIONS=no, or a value of the user's or the site's own", hint, long
        )


def _linked(nodes: tuple[str, ...], context: ShellContext, account: ShellAccount) -> Traced:
    """Return the hint for a module that the linker cannot load: the variable that misleads it, and its line."""

    def words(traces: Traces) -> str:
        for name in _LINKED:
            if place := traces.place(nodes, context, account, name):
                return f"{place} sets {name}: take that line away"
        return "LD_LIBRARY_PATH, LUA_PATH or LUA_CPATH of that shell? `echo` them there"

    return Traced((TraceQuestion(nodes[0], context, account, _LINKED),), words)


def _path(context: ShellContext, account: ShellAccount, where: str, fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    """Yield each PATH in which the system's programs are not found, before or after an entry is loaded."""
    key = context_key(context, account)
    for said, nodes in fleet.by_value(f"{key}path_brought").items():
        known = " sets it: `PATH=FOLDER:$PATH` keeps what was there"
        hint = set_by(nodes, context, account, "PATH", known, "which start-up file sets PATH?")
        yield _finding("error", where, f"PATH is {short(said) or 'empty'}", "the system's programs in it", hint, nodes)
    for said, nodes in fleet.by_value(f"{key}path_loaded").items():
        entry = evidence.plan.samples[0] if evidence.plan.samples else ""
        yield _finding(
            "error",
            where,
            f"after `module load {entry}` PATH is {short(said)}",
            "the system's programs in it",
            "the shell had no PATH of its own, or `module` is not Lmod's: `echo $PATH` and `type module` there",
            nodes,
        )


def _told(key: str, where: str, fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    """Yield notes on problems of users' jobs that node-setup's files explain or prevent."""
    usable = fleet.only(lambda facts: bool(generations_in_path(facts, key, evidence)))
    if nodes := usable.by_value(f"{key}bare").get("nothing"):
        yield _finding(
            "note",
            where,
            "a `#!/bin/sh` job that says `module` is told `not found`",
            "what to write instead, by the program `module` of node-setup",
            f"`envmgr node-setup --apply --nodes {fold(nodes)}`, and TaskProlog in slurm.conf",
            nodes,
        )
    heal = evidence.site.slurm.heal_export
    for export, nodes in usable.by_value(f"{key}export").items():
        if not export or "ALL" in export.upper().split(",") or heal is False:
            continue
        again = f"`envmgr node-setup --apply --nodes {fold(nodes)}`, and TaskProlog in slurm.conf"
        yield _finding(
            "note",
            where,
            f"SLURM_EXPORT_ENV={export}: srun in such a job starts tasks without what modules set",
            "tasks with the job's environment",
            f"{again}, which unsets it"
            if heal
            else f"`slurm: {{heal_export: true}}` in site.yaml, then {again}; false leaves it so, and ends this note",
            nodes,
        )


def _wrong_rc(facts: Facts, key: str, evidence: Evidence) -> str | None:
    numbers = generations_in_path(facts, key, evidence)
    wanted = {f"{evidence.site.prefix}/generations/{n}/lmodrc.lua" for n in numbers}
    named = facts.get(f"{key}lmod_rc", "")
    return None if wanted & set(named.split(":")) else f"LMOD_RC is {named or 'not set'}"


def _generations(
    context: ShellContext, account: ShellAccount, where: str, fleet: Fleet, evidence: Evidence
) -> Iterator[Row]:
    key = context_key(context, account)
    published = evidence.published
    if published is None:
        return
    wanted = published.record.number
    for group in fleet.groups:
        numbers = generations_in_path(group.facts, key, evidence)
        if numbers == [f"{wanted:04d}"]:
            continue
        shown = " and ".join(n.lstrip("0") for n in numbers)
        fix: str | Traced = _mend(group.nodes, context, account, "MODULEPATH")
        if not numbers:
            raw = group.facts[f"{key}modulepath"]
            found = f"MODULEPATH has no modules of {evidence.site.prefix}: {short(raw) if raw else 'it is empty'}"
            if f"{key}posix" in group.facts:
                fix = posix_hint(group.nodes, context, account)
            elif f"{key}no_bashrc" in group.facts and context.name == "bash-ssh":  # not all shells read /etc/bashrc
                fix = f"{group.facts[f'{key}no_bashrc']} is missing: copy /etc/skel/.bashrc, which reads /etc/bashrc"
            yield _finding("error", where, found, f"generation {wanted}", fix, group.nodes)
        elif len(numbers) > 1:
            yield _finding("error", where, f"MODULEPATH has generations {shown}", "one generation", fix, group.nodes)
        elif int(numbers[0]) not in published.kept:
            yield _finding(
                "error",
                where,
                f"generation {shown}, which is not kept",
                f"generation {wanted}",
                "start a new login shell; what it inherited is gone",
                group.nodes,
            )
        elif context.export == "ALL":
            yield _finding(
                "note",
                where,
                f"generation {shown}, inherited from the submitting shell",
                f"generation {wanted}",
                "new login shells get the new one",
                group.nodes,
            )
        elif group.facts.get("current", f"generations/{wanted:04d}") == f"generations/{wanted:04d}":
            # else `current` itself is stale there, which the check `generation` reports
            yield _finding("error", where, f"generation {shown}", f"generation {wanted}", fix, group.nodes)


def _noise(evidence: Evidence) -> Iterator[Row]:
    """Yield the text that start-up files print.

    The line found in one shell stands for all shells that print the same.
    """
    told = [
        (context, account, text, nodes)
        for context, account, fleet in evidence.contexts()
        for text, nodes in fleet.by_value(f"{context_key(context, account)}noise").items()
    ]
    for context, account, text, nodes in told:
        alike = [(each[3], each[0], each[1]) for each in told if each[2] == text]
        severity: Severity = "note" if context.shell in ("bash-login", "bash-interactive", "zsh") else "warning"
        where = evidence.shell(context, account)
        yield _finding(
            severity, where, f'a start-up file prints "{text}"', "nothing on stdout", _printing(alike), nodes
        )


def _printing(shells: Sequence[tuple[tuple[str, ...], ShellContext, ShellAccount]]) -> Traced:
    """Return the hint for shells that print the same text: the line that one of them shows."""

    def words(traces: Traces) -> str:
        found = (traces.place(*shell, name) for shell in shells for name in _PRINTS)
        if place := next((place for place in found if place), ""):
            return f"{place} may be the line: print only where `[ -t 1 ]`"
        where_to = "in /etc/bash.bashrc, /etc/bashrc, /etc/profile.d and the user's own files"
        return f"print only where `[ -t 1 ]`: {where_to}"

    return Traced(
        tuple(TraceQuestion(nodes[0], context, account, _PRINTS) for nodes, context, account in shells), words
    )


def _finding(
    severity: Severity, where: str, found: str, expected: str, hint: str | Traced, nodes: tuple[str, ...]
) -> Found:
    return Found(severity, where, found, expected, hint, nodes)


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"modules"}), loads=True, joins=True)
