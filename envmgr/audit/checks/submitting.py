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

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from envmgr.audit.causes import part_of
from envmgr.audit.model import AskedShell, Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.modulepath import elements
from envmgr.audit.table import fields_of
from envmgr.nodes.batch import conf_fault
from envmgr.nodes.slurm import own_conf
from envmgr.probe.model import Facts, Group, ProbeStage
from envmgr.system.shelltext import assign, script_text

_EXPORTS = ("SBATCH_EXPORT", "SLURM_EXPORT_ENV")
_IN_WORDS = {"PATH": "the module's programs (PATH)", "ENVMGR_CANARY": "exported variables"}
# What Slurm says of an option that it refuses -> the variables of such options.
_REFUSED = {
    "partition": "SBATCH_PARTITION SLURM_PARTITION",
    "account": "SBATCH_ACCOUNT SLURM_ACCOUNT",
    "qos": "SBATCH_QOS SLURM_QOS",
    "reservation": "SBATCH_RESERVATION SLURM_RESERVATION",
    "feature": "SBATCH_CONSTRAINT SLURM_CONSTRAINT",
    "cluster": "SBATCH_CLUSTERS SLURM_CLUSTERS",
    "license": "SBATCH_LICENSES",
    "gres|generic resource": "SBATCH_GRES SBATCH_GPUS",
    "wckey": "SBATCH_WCKEY SLURM_WCKEY",
    "time limit": "SBATCH_TIMELIMIT",
}


def probe(plan: AuditPlan) -> dict[ProbeStage, str]:  # noqa: ARG001 - the same for every plan
    conf = assign(submitting_conf=own_conf()) + conf_fault()
    return {"login": conf + script_text(__file__, "login.sh"), "context": script_text(__file__, "context.sh")}


def submit_probe(plan: AuditPlan) -> ProbeTexts:  # noqa: ARG001 - the same for every plan
    return {"node": script_text(__file__, "job.sh")}


def judge(evidence: Evidence) -> Rows:
    for each in evidence.each_shell():
        for line, nodes in each.by_line("submitting.renamed").items():
            name, value = fields_of(line, 2)
            if not _is_whole(value):
                yield evidence.say("renamed", nodes, each, name=name, value=value)
    told = False
    for host, facts, shell in _hosts(evidence):
        for row in _of_host(host, facts, shell, evidence):
            told = True
            yield row
        yield from _folders(host, facts, shell, evidence)
    if not told:
        yield from _lost(evidence)


def _hosts(evidence: Evidence) -> Iterator[tuple[str, Facts, AskedShell | None]]:
    """Yield each host that sends jobs: its facts, and its login shell, if that was asked."""
    login = evidence.login_shell()
    for group in evidence.shells.groups:
        for host in group.nodes:
            if host in evidence.login or host == evidence.sender:
                own = replace(evidence.shells, groups=(Group(group.facts, (host,)),))
                yield host, group.facts, replace(login, fleet=own) if login else None


def _of_host(host: str, facts: Facts, shell: AskedShell | None, evidence: Evidence) -> Rows:
    """Yield what variables of its login shell do to jobs."""
    if conf := facts.get("submitting.conf"):
        yield evidence.say("conf", [host], shell, name="SLURM_CONF", value=conf)
        return
    found = dict(line.partition("=")[::2] for line in facts.get("submitting.variables", "").splitlines())
    lost = _in_words(evidence) if host == evidence.sender and evidence.as_users else None
    for name in _EXPORTS:
        if name in found and not _is_whole(found[name]) and lost != "":
            what = lost or "jobs do not get what the shell has"
            yield evidence.say("narrowed", [host], shell, name=name, value=found[name], lost=what)
    if host == evidence.sender and (said := refusal(evidence)):
        for pattern, names in _REFUSED.items():
            for name in names.split() if re.search(pattern, said, re.IGNORECASE) else ():
                if name in found:
                    yield evidence.say("refused", [host], shell, name=name, value=found[name], said=said)


def _folders(host: str, facts: Facts, shell: AskedShell | None, evidence: Evidence) -> Rows:
    """Yield folders of MODULEPATH that the host has and a job does not find, without those that nodes name, too."""
    if host != evidence.sender or evidence.as_users is None:
        return
    named = {line.partition(" ")[2] for line in evidence.fleet.by_line("folders.at")}
    there = facts.get("submitting.folders", "").splitlines()
    for folder, nodes in evidence.as_users.by_line("submitting.gone").items():
        if folder in there and folder not in named:
            names = part_of("MODULEPATH", folder)
            yield evidence.say("inherited_folder", [host], shell, folder=folder, host=host, names=names, other=nodes[0])


def refusal(evidence: Evidence) -> str:
    """Return why Slurm refused jobs when they were submitted; empty if it took them."""
    replies = (reply for way, fleet in evidence.ways.items() if way != "ssh" for reply in fleet.missing)
    return next(
        (reply.reason for reply in replies if "submission failed" in reply.reason or "nvalid" in reply.reason), ""
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


def _lost(evidence: Evidence) -> Rows:
    """Yield what did not arrive in the job, where no variable of the submitting shell explains that."""
    groups = evidence.as_users.groups if evidence.as_users else ()
    for said, nodes in evidence.as_users.by_value("submitting.no_step").items() if evidence.as_users else ():
        yield evidence.say("no_step", nodes, said=said)
    if not groups or not (lost := _in_words(evidence)):
        return
    host = evidence.sender
    where = "srun" if lost.startswith("a step") else "sbatch"
    facts = next((facts for name, facts, _ in _hosts(evidence) if name == host), {})
    plugins = {**(evidence.answer(dict) or {}), **_plugins(facts)}
    for setting, of in plugins.items():
        line = facts.get(f"submitting.line.{setting}", "")
        row = "plugin" if line else "plugins"
        if line or setting == [*plugins][-1]:
            yield evidence.say(row, [host], where=where, lost=lost, line=line, setting=setting, plugins=of)
            return
    yield evidence.say("lost", [host], where=where, lost=lost)


def _plugins(facts: Facts) -> Mapping[str, str]:
    names = ("CliFilterPlugins", "JobSubmitPlugins")
    return {name: facts[f"submitting.plugins.{name}"] for name in names if f"submitting.plugins.{name}" in facts}


CHECK = Check(judge=judge, probe=probe, submit_probe=submit_probe)
