"""Jobs get what the shell that submits them has.

The audit sends one job as users do: from a login shell on this host, with an entry loaded (without envmgr, the first
module that there is), and without an option for exports. The folders of modules, the loaded modules, their programs and
an exported variable must arrive in the job, and in a step that srun starts there. If something does not arrive, the
finding names SBATCH_EXPORT or SLURM_EXPORT_ENV, where the login shell has it.

If Slurm takes no job from here, and a variable of the login shell sets what Slurm refuses (SBATCH_PARTITION, SLURM_CONF and
others), that variable is the error, and the nodes are a note.
"""

from __future__ import annotations

from envmgr.audit.model import Check, Evidence, Rows, scripts
from envmgr.audit.shell.shared_shell import elements
from envmgr.audit.shell.submit_options import refused_by
from envmgr.probe.model import Facts

_IN_WORDS = {
    "MODULEPATH": "the folders of modules",
    "LOADEDMODULES": "loaded modules",
    "PATH": "the module's programs",
    "ENVMGR_CANARY": "exported variables",
}


def judge(evidence: Evidence) -> Rows:
    shell, sender = evidence.user_login, [evidence.sender]
    if (facts := evidence.shells.told.get(evidence.sender)) is None:
        return
    refusals = (reply.reason for way, fleet in evidence.ways.items() if way != "ssh" for reply in fleet.missing)
    for said in dict.fromkeys(refusals):
        for name, value in refused_by(said, facts):
            yield evidence.say("refused", sender, shell, name=name, value=value, said=said)
    for said, nodes in evidence.as_users.by_value("submitting.no_step").items():
        yield evidence.say("no_step", nodes, said=said)
    if lost := _lost(evidence):
        variables = (line.partition("=") for line in facts.get("submitting.variables", "").splitlines())
        exports = {name: value for name, _, value in variables if name in ("SBATCH_EXPORT", "SLURM_EXPORT_ENV")}
        narrowed = {name: value for name, value in exports.items() if "ALL" not in value.upper().split(",")}
        for name, value in narrowed.items():
            yield evidence.say("narrowed", sender, shell, name=name, value=value, lost=lost)
        if not narrowed:
            yield evidence.say("lost", sender, shell, lost=lost)


def _lost(evidence: Evidence) -> str:
    """Return what of the submitting shell did not arrive; empty if all did, or the job did not answer."""
    facts = next(iter(evidence.as_users.told.values()), {})
    for place, where in (("job", "jobs do not"), ("step", "a step of srun does not")):
        if lacks := [words for name, words in _IN_WORDS.items() if _lacks(name, place, facts)]:
            return f"{where} get {', '.join(lacks)}"
    return ""


def _lacks(name: str, place: str, facts: Facts) -> bool:
    got, wanted = facts.get(f"submitting.{place}.{name}"), facts.get(f"submitting.wanted.{name}", "")
    return got is not None and not set(elements(wanted)) <= set(elements(got))


CHECK = Check(judge=judge, probe=scripts(__file__, "login", "job"))
