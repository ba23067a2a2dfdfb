"""Slurm's state of each node: down, not responding, drained, failing. The check runs only where Slurm is in use.

The states are those of `sinfo`. A node that is down or does not respond gets no jobs: an error. A drained node was
taken out by an administrator, or by Slurm itself after a job that it could not end: a warning, with Slurm's reason.
Nodes that save power, reboot or wait in a maintenance reservation are a note. A node that Slurm does not know is a
note, if other nodes of its group are Slurm's. A node whose host name differs from Slurm's name for it is a warning:
slurmd will not find itself in slurm.conf when it starts again.

Each node's slurm.conf is compared with that of like nodes: TaskProlog, and the rest without comments. Node-setup's
TaskProlog is right, however few nodes have it. The names of the
files in PluginDir are compared, too: `srun --mpi=pmi2` fails where mpi_pmi2.so is missing. Two faults are errors. If
plugstack.conf requires a plugin that is not there, no job starts. If users cannot read slurm.conf, none of Slurm's
commands works for them. What slurmd runs around jobs (Prolog, Epilog, TaskProlog, TaskEpilog, HealthCheckProgram and
others) must be there and executable, and be the same on like nodes. So must cgroup.conf, gres.conf, plugstack.conf,
files that slurm.conf includes, and slurmd's own variables that change programs (LD_PRELOAD, TMPDIR, PATH, LANG, …).
A folder of job_container/tmpfs that is not there is an error. A Slurm that does not answer this host at all is an
error. Slurm's name of a node may lack its domain.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from envmgr.audit.compare.between_nodes import other_lines, values_of_like_nodes
from envmgr.audit.controller import Controller, SlurmView
from envmgr.audit.model import Check, Evidence, Outlier, ProbeTexts, Rows, Values
from envmgr.audit.openings import open_steps
from envmgr.audit.plan import AuditPlan, AuditRequest
from envmgr.audit.table import fields_of, short
from envmgr.errors import EnvmgrError
from envmgr.modules.node_paths import HOME, SLURM_LINE
from envmgr.nodes.sets import fold
from envmgr.nodes.slurm import in_words, node_hosts, slurm_names
from envmgr.report import Severity
from envmgr.system.shelltext import assign, script_text

# Source: sinfo(1), NODE STATE CODES. The flags: * no response, ~ # ! % power, $ maintenance, @ ^ reboot, - planned.
_FLAGS = "*~#!%$@^-"
_SEVERITIES: Mapping[str, Severity] = {
    **dict.fromkeys("down error fail failing inval unknown no_respond future".split(), "error"),
    **dict.fromkeys("drain draining drained".split(), "warning"),
    **dict.fromkeys("maint power_down powering_down powered_down power_up powering_up".split(), "note"),
    **dict.fromkeys("reboot reboot_requested reboot_issued".split(), "note"),
}


@dataclass(frozen=True, slots=True)
class Hosts:
    """The host name that Slurm has for each node: node -> name."""

    names: Mapping[str, str]


def probe(plan: AuditPlan) -> ProbeTexts:  # noqa: ARG001 - the same for every plan
    return {"node": assign(slurm_ours=HOME) + script_text(__file__, "node.sh")}


def ask_controller(controller: Controller, evidence: Evidence) -> Hosts:
    if evidence.slurm.states:
        with suppress(EnvmgrError):  # sinfo has just answered; without it hosts are not compared
            return Hosts(node_hosts(controller.runner, timeout=controller.left))
    return Hosts({})


def judge(evidence: Evidence) -> Rows:
    slurm = evidence.slurm
    if slurm.broken:
        yield evidence.say("broken", said=slurm.broken)
    names = slurm_names(slurm.states, evidence.nodes)
    states: dict[tuple[Severity, str, str], list[str]] = {}
    for node, name in names.items():
        state, reason = slurm.states[name]
        if severity := _severity(state):
            states.setdefault((severity, state, reason), []).append(node)
    for (severity, state, reason), nodes in states.items():
        hint = _hint(state, severity, fold(names[node] for node in nodes))
        yield evidence.say("state", nodes, severity=severity, state=in_words((_plain(state), reason)), hint=hint)
    yield from _hosts(evidence, names)
    yield from _settings(evidence)
    yield from _files(evidence)
    yield from _around_jobs(evidence)
    if unknown := _strangers(evidence, slurm, names):
        yield evidence.say("unknown", unknown)


def _hosts(evidence: Evidence, names: Mapping[str, str]) -> Rows:
    """Yield nodes whose host name differs from Slurm's name for them.

    A node where slurmd got its name by `slurmd -N` is skipped, because slurmd does not ask the host there.
    """
    known = asked.names if (asked := evidence.answer(Hosts)) else {}
    fleet = evidence.fleet
    named = frozenset(fleet.by_value("slurm.named").get("yes", ()))
    for node, name in names.items():
        host, right = fleet.own.get(node, {}).get("host", ""), known.get(name, "")
        if host and right and node not in named and _label(host) != _label(right):
            yield evidence.say("host_name", [node], host=host, right=right)


def _settings(evidence: Evidence) -> Rows:
    """Yield the differences in each node's own slurm.conf, and in the cores of slurmd.

    A node without a slurm.conf (configless) has the controller's.
    """
    cores = evidence.fleet.by_value("slurm.cores")
    yield evidence.compared(
        "cores", cores, say=lambda of: "runs on all cores" if of == "all" else f"is bound to the cores {of}"
    )
    with_file = evidence.fleet.only(lambda facts: "slurm.sum" in facts)
    file = next(iter(with_file.by_value("slurm.conf")), "")
    prologs = with_file.by_value("slurm.prolog", default="")
    ours = "" if evidence.alone else SLURM_LINE.partition("=")[2]
    for of_login in (False, True):
        found = {value: tuple(n for n in of if (n in evidence.login) == of_login) for value, of in prologs.items()}
        values, given = {value: of for value, of in found.items() if of}, evidence
        few = ours in values and not _most(ours, values) and not of_login
        if few and ours and not evidence.reference:  # it is right nevertheless
            given = replace(evidence, plan=replace(evidence.plan, request=AuditRequest(reference=values[ours][0])))
        yield given.compared("prolog", values, file=file)
    if len(prologs) == 1:  # else TaskProlog is the difference
        digests = with_file.by_value("slurm.sum")
        yield evidence.compared("content", digests, file=file)


def _most(value: str, values: Values) -> bool:
    """Return whether more than half of the nodes have it."""
    return 2 * len(values.get(value, ())) > sum(map(len, values.values()))


def _files(evidence: Evidence) -> Rows:
    """Yield faults of other files that Slurm's own programs need on a node, and of files that users need to read."""
    brought = evidence.fleet.by_line("slurm.brought")
    for line, nodes in evidence.fleet.by_line("slurm.required").items():
        place, _, plugin = line.partition(" ")
        row = "lost_there" if (having := brought.get(plugin, ())) else "required"
        file = place.rpartition(":")[0]
        yield evidence.say(row, nodes, file=file, place=place, plugin=plugin, having=fold(having))
    for line, nodes in evidence.fleet.by_line("slurm.unreadable").items():
        path, _, mode = line.rpartition(" ")
        kind = "a file that users can read" if path.endswith(".conf") else "a folder that users can enter"
        hint = open_steps(evidence.site, [path], whom="users")
        yield evidence.say("unreadable", nodes, path=path, mode=mode, kind=kind, hint=hint)
    plugins = evidence.fleet.by_value("slurm.plugins")
    folders = evidence.fleet.by_value("slurm.plugin_dir")
    for alike in values_of_like_nodes(plugins, evidence):  # login nodes have less of Slurm
        yield evidence.compared(
            "plugins",
            alike,
            folder=next(iter(folders), ""),
            say=lambda names: f"{len(names.splitlines())} plugins",
            told=other_lines,
        )


def _around_jobs(evidence: Evidence) -> Rows:
    """Yield faults of what slurmd runs around jobs, and differences in that, in its other files and its environment."""
    conf = next(iter(evidence.fleet.by_value("slurm.conf")), "")
    for line, nodes in evidence.fleet.by_line("slurm.broken").items():
        setting, file, what = fields_of(line, 3)
        row = "no_folder" if setting == "BasePath" else "not_executable" if "executable" in what else "not_there"
        mode = "a+rx" if setting.startswith("Task") else "u+x"  # users run these, and root the others
        yield evidence.say(row, nodes, conf=conf, setting=setting, file=file, mode=mode)
    told = evidence.fleet.only(lambda facts: "slurm.told_files" in facts)
    broken = {fields_of(line, 3)[1] for line in told.by_line("slurm.broken")}
    files = told.by(lambda facts: _without(broken, facts.get("slurm.files", "")))
    yield evidence.compared("files", files, say=_listed, told=_other_files)
    environ = evidence.fleet.only(lambda facts: "slurm.told_environ" in facts)
    yield evidence.compared("environ", environ.by_value("slurm.environ", default=""), told=other_lines)


def _without(broken: set[str], lines: str) -> str:
    return "\n".join(line for line in lines.splitlines() if fields_of(line, 3)[1] not in broken)


def _listed(lines: str) -> str:
    return short(", ".join(fields_of(line, 3)[1] for line in lines.splitlines()) or "none")


def _other_files(of: Outlier) -> str:
    own, right = ({fields_of(line, 3)[1]: line for line in text.splitlines()} for text in (of.value, of.right))
    other = [file for file in own if file in right and own[file] != right[file]]
    words = [f"another {file}" for file in other] + [f"no {file}" for file in right if file not in own]
    return short(", ".join([*words, *(f"also {file}" for file in own if file not in right)]))


def _label(host: str) -> str:
    return host.partition(".")[0].lower()


def _severity(state: str) -> Severity | None:
    word = state.lower()
    return "error" if "*" in word else _SEVERITIES.get(word.rstrip(_FLAGS))


def _plain(state: str) -> str:
    """Return the state without the flags that the severity already expresses. The flag for no response stays."""
    return state.rstrip(_FLAGS) + "*" * ("*" in state)


def _hint(state: str, severity: Severity, nodes: str) -> str:
    if severity == "note":
        return ""
    resume = f"`scontrol update nodename={nodes} state=resume`"
    if "*" in state:
        return f"`systemctl restart slurmd` on the node; then {resume}"
    return f"once that is fixed: {resume}"


def _strangers(evidence: Evidence, slurm: SlurmView, names: Mapping[str, str]) -> list[str]:
    """Return the nodes that Slurm does not know, without groups that are unknown as a whole.

    Login nodes and file servers are not Slurm's.
    """
    if not slurm.states:
        return []
    groups = [frozenset(members) for members in evidence.groups.values()]
    grouped = frozenset(node for members in groups for node in members)
    mixed = [members for members in groups if slurm_names(slurm.states, members)]
    return [
        node
        for node in evidence.nodes
        if node not in names and (node not in grouped or any(node in members for members in mixed))
    ]


CHECK = Check(judge=judge, probe=probe, ask_controller=ask_controller, wants=frozenset({"slurm"}))
