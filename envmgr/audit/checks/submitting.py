"""Jobs get what the shell that submits them has, and go to this cluster.

The audit sends one job as users do: from a login shell on this host, with an entry loaded (without envmgr, the first
module that there is), and without an option for exports. MODULEPATH, LOADEDMODULES, the programs of the module and an
exported variable must arrive in the job, and in a step that srun starts there. If something does not arrive, the
finding names the cause where it can be seen: SBATCH_EXPORT or SLURM_EXPORT_ENV in the login shell, or a plugin of
slurm.conf (CliFilterPlugins, JobSubmitPlugins).

Before jobs are sent, the check looks at the login shell of each host that sends jobs. A SLURM_CONF that names no file,
or another cluster's, is an error, and no job is sent. SBATCH_PARTITION and similar variables are an error if Slurm
refuses a job. An alias or a function that gives sbatch, srun or salloc an `--export` without ALL is a warning.

A folder of MODULEPATH that only such a host has is an error, because jobs inherit the name and find nothing there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from envmgr.audit.controller import Controller
from envmgr.audit.model import AskedShell, Check, Evidence, Found, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.modulepath import elements
from envmgr.audit.shell.submit_options import refused_by
from envmgr.audit.table import fields_of
from envmgr.nodes.batch import conf_fault
from envmgr.nodes.slurm import own_conf, submit_plugins
from envmgr.probe.model import Facts, Group, ProbeStage
from envmgr.report import Severity
from envmgr.system.shelltext import assign, script_text

_EXPORTS = ("SBATCH_EXPORT", "SLURM_EXPORT_ENV")
_PLUGINS = ("CliFilterPlugins", "JobSubmitPlugins")
_WARNING: Severity = "warning"
_IN_WORDS = {"PATH": "the module's programs (PATH)", "ENVMGR_CANARY": "exported variables"}


def probe(plan: AuditPlan) -> dict[ProbeStage, str]:  # noqa: ARG001 - the same for every plan
    conf = assign(submitting_conf=own_conf()) + conf_fault()
    return {"login": conf + script_text(__file__, "login.sh"), "context": script_text(__file__, "context.sh")}


def submit_probe(plan: AuditPlan) -> ProbeTexts:  # noqa: ARG001 - the same for every plan
    return {"node": script_text(__file__, "job.sh")}


@dataclass(frozen=True, slots=True)
class Plugins:
    """Plugins of the controller that change what is submitted: setting of slurm.conf -> their names."""

    of: Mapping[str, str]


def ask_controller(controller: Controller, evidence: Evidence) -> Plugins:
    """Ask for them only where something did not arrive."""
    return Plugins(submit_plugins(controller.runner, _PLUGINS) if _in_words(evidence) else {})


def judge(evidence: Evidence) -> Rows:
    told = [*_conf(evidence), *_narrowed(evidence), *_renamed(evidence)]
    yield from told
    for host, facts, shell in _hosts(evidence):
        if host == evidence.sender:
            yield from _refused(host, facts, shell, evidence)
            yield from _folders(host, facts, shell, evidence)
            if not any(host in row.nodes for row in told):
                yield from _lost(host, facts, evidence)


def _hosts(evidence: Evidence) -> Iterator[tuple[str, Facts, AskedShell]]:
    """Yield each host that was asked: its facts, and its login shell."""
    for group in evidence.shells.groups:
        for host in group.nodes:
            own = replace(evidence.shells, groups=(Group(group.facts, (host,)),))
            yield host, group.facts, replace(evidence.user_login, fleet=own)


def _senders_first(nodes: Iterable[str], evidence: Evidence) -> list[str]:
    return sorted(nodes, key=lambda node: (node != evidence.sender, node not in evidence.login))


def _conf(evidence: Evidence) -> Iterator[Found]:
    for value, nodes in evidence.shells.by_value("submitting.conf").items():
        ordered = _senders_first(nodes, evidence)
        yield evidence.say("conf", ordered, evidence.user_login, name="SLURM_CONF", value=value)


def _narrowed(evidence: Evidence) -> Iterator[Found]:
    """Yield variables that narrow the exports of jobs, unless the job shows that everything arrives."""
    for line, nodes in evidence.shells.by_line("submitting.variables").items():
        name, _, value = line.partition("=")
        if name not in _EXPORTS or _is_whole(value):
            continue
        ordered = _senders_first(nodes, evidence)
        sends = ordered[0] in evidence.login or ordered[0] == evidence.sender
        lost = _in_words(evidence) if ordered[0] == evidence.sender else None
        if lost != "":
            what, severity = lost or "jobs do not get what the shell has", None if sends else _WARNING
            yield evidence.say("narrowed", ordered, evidence.user_login, severity, name=name, value=value, lost=what)


def _renamed(evidence: Evidence) -> Iterator[Found]:
    """Yield aliases and functions that give Slurm's commands an --export of their own."""
    for shell in evidence.each_shell():
        for line, nodes in shell.by_line("submitting.renamed").items():
            name, value, place = fields_of(line, 3)
            if not _is_whole(value):
                row = "function" if place else "alias"
                lost = row == "function" and evidence.sender in nodes and _in_words(evidence)
                yield evidence.say(row, nodes, shell, "error" if lost else None, name=name, value=value, place=place)


def _refused(host: str, facts: Facts, shell: AskedShell, evidence: Evidence) -> Rows:
    """Yield variables that make Slurm refuse the audit's jobs, and so those of users."""
    for way, fleet in evidence.ways.items():
        for said in dict.fromkeys(reply.reason for reply in fleet.missing if way != "ssh"):
            for name, value in refused_by(said, facts):
                yield evidence.say("refused", [host], shell, name=name, value=value, said=said)


def _folders(host: str, facts: Facts, shell: AskedShell, evidence: Evidence) -> Rows:
    """Yield folders of MODULEPATH that the host has and a job does not find."""
    if evidence.as_users is None:
        return
    there = facts.get("submitting.folders", "").splitlines()
    for folder, nodes in evidence.as_users.by_line("submitting.gone").items():
        if folder in there:
            yield evidence.say(
                "inherited_folder", [host], shell, folder=folder, host=host, names="MODULEPATH", other=nodes[0]
            )


def _is_whole(value: str) -> bool:
    return "ALL" in value.upper().split(",")


def _in_words(evidence: Evidence) -> str | None:
    """Return what of the submitting shell did not arrive; empty if all did, None if the job did not answer."""
    groups = evidence.as_users.groups if evidence.as_users else ()
    if not groups or "submitting.wanted.ENVMGR_CANARY" not in groups[0].facts:
        return None
    facts = groups[0].facts
    for place, where in (("job", "jobs do not"), ("step", "a step of srun does not")):
        lacks = [
            name for name in ("MODULEPATH", "LOADEDMODULES", "PATH", "ENVMGR_CANARY") if _lacks(name, place, facts)
        ]
        if lacks:
            return f"{where} get {', '.join(_IN_WORDS.get(name, name) for name in lacks)}"
    return ""


def _lacks(name: str, place: str, facts: Facts) -> bool:
    got = facts.get(f"submitting.{place}.{name}")
    return got is not None and not set(elements(facts[f"submitting.wanted.{name}"])) <= set(elements(got))


def _lost(host: str, facts: Facts, evidence: Evidence) -> Rows:
    """Yield what did not arrive in the job, where no variable of the submitting shell explains that."""
    if evidence.as_users is None:
        return
    for said, nodes in evidence.as_users.by_value("submitting.no_step").items():
        yield evidence.say("no_step", nodes, said=said)
    if not (lost := _in_words(evidence)):
        return
    where = "srun" if lost.startswith("a step") else "sbatch"
    asked = evidence.answer(Plugins)
    plugins = {**(asked.of if asked else {}), **_plugins(facts)}
    lines = {name: facts[f"submitting.line.{name}"] for name in plugins if f"submitting.line.{name}" in facts}
    for setting, line in lines.items():
        of = plugins[setting]
        yield evidence.say("plugin", [host], where=where, lost=lost, line=line, setting=setting, plugins=of)
    if not lines and plugins:
        said = ", ".join(f"{setting}={of}" for setting, of in plugins.items())
        yield evidence.say("plugins", [host], where=where, lost=lost, plugins=said)
    elif not lines:
        yield evidence.say("lost", [host], where=where, lost=lost)


def _plugins(facts: Facts) -> Mapping[str, str]:
    return {name: facts[f"submitting.plugins.{name}"] for name in _PLUGINS if f"submitting.plugins.{name}" in facts}


CHECK = Check(judge=judge, probe=probe, submit_probe=submit_probe, ask_controller=ask_controller)
