"""Settings that a shell has before any module is loaded, in every context, if they change what modules give.

The check reports these wherever they occur, even where all nodes have them:

- PYTHONHOME and PYTHONPATH (each Python of a module takes its libraries from there first), and LUA_INIT (Lmod's own Lua
  runs it);
- an active conda or virtual environment, and a job's number where there is no such job;
- functions and aliases with the name of a program of a published entry;
- a locale or a time zone that the node lacks;
- exported variables that change shells and programs: CDPATH, POSIXLY_CORRECT, SHELLOPTS, TAR_OPTIONS, PERL5OPT.

LD_PRELOAD, LD_LIBRARY_PATH, LD_AUDIT, PYTHONSTARTUP, CUDA_VISIBLE_DEVICES and conda's hook are a note where all nodes
have the same value, because sites have reasons for them.

The check compares nodes by these settings, BASH_ENV, PATH and its order, and the modules that are already loaded. Other
exported variables that differ are a warning if programs read them, else a note. Variables that each session sets again
do not count. On one node, the check compares contexts by the loaded modules, and by the parts of PATH outside the
system's folders. A difference is a note. A finding names the file and line of the start-up file that causes it, if the
trace of one such shell shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.causes import Traced, part_of, set_by, set_on
from envmgr.audit.compare.between_nodes import Across, across, drift
from envmgr.audit.model import Check, Evidence, Found, Row
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.exported_variables import HARM, HARM_EXPORTED, exported, inherited_by_jobs, options_of_slurm
from envmgr.audit.wording import elements, other_parts, short
from envmgr.modules.nodesetup import PROGRAM
from envmgr.probe.model import Facts, Fleet, ProbeStage, ShellAccount, ShellContext
from envmgr.probe.shell import context_key
from envmgr.system.shelltext import assign, script_text

_PARTS = 8  # so many parts of a list are traced at most
_MOST = 40  # so many names of programs are looked up at most
_SYSTEM = ("/usr/", "/bin", "/sbin", "/snap/")
_ALWAYS = ("pip", "python", "python3")
_LOCALE = ("LC_ALL", "LANG", "LC_CTYPE")

_SHOWN = {"loaded": "LOADEDMODULES"}
_COMPARED = (*HARM, "BASH_ENV", "PATH", "loaded")
# Not compared by `exported`: the variables above, those of other checks, and those that sessions, jobs and Lmod set.
_PASSED = (
    "^(PWD|OLDPWD|SHLVL|HOSTNAME|HOST|TERM|SSH_.*|XDG_.*|DBUS_.*|SLURM.*|PMI.*|PMIX.*|KRB5CCNAME|LS_COLORS|MODULEPATH|MANPATH|LMOD_.*"
    "|LOADEDMODULES|SHELL|LM_LICENSE_FILE_.*|TARG_.*|SRUN_DEBUG|ENVMGR_.*|MODULESHOME|ROCR_.*|GPU_DEVICE_ORDINAL|"
)


def _passed() -> str:
    return _PASSED + "|".join(name for name in _COMPARED) + ")="


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:
    own = {install.program.rpartition("/")[2] for install in plan.installs if install.program}
    names = [
        name for name in sorted({*own, *_ALWAYS}) if name.replace("-", "").replace("_", "").replace(".", "").isalnum()
    ]
    return {
        "context": assign(
            ambient_names=" ".join(names[:_MOST]),
            ambient_without=PROGRAM,
            ambient_passed=_passed(),
            ambient_variables=" ".join(
                name for name in _COMPARED if name not in ("PATH", "loaded", "SLURM_JOB_ID", *HARM_EXPORTED)
            ),
            ambient_harmful=" ".join(HARM_EXPORTED),
        )
        + script_text(__file__, "context.sh")
    }


def judge(evidence: Evidence) -> Iterator[Row]:
    yield from _all(evidence)
    yield from _in_other_contexts(evidence)
    yield from _loaded_by_own_files(evidence)
    yield from inherited_by_jobs(evidence)


def _all(evidence: Evidence) -> Iterator[Row]:
    for context, account, fleet in evidence.contexts():
        key = f"{context_key(context, account)}ambient."
        evidence.shell(context, account)
        asked = fleet.only(lambda facts, key=key: f"{key}PATH" in facts)  # type: ignore[misc]
        for name in _COMPARED:
            yield from _variable(name, context, account, asked, evidence)
        yield from _shadows(context, account, asked, evidence)
        yield from options_of_slurm(context, account, asked, evidence)
        yield from _not_there(context, account, asked, evidence)
        yield from exported(context, account, asked, evidence)


def _variable(
    name: str, context: ShellContext, account: ShellAccount, fleet: Fleet, evidence: Evidence
) -> Iterator[Row]:
    key, where = f"{context_key(context, account)}ambient.", evidence.shell(context, account)
    values = fleet.by_value(f"{key}{name}", default="")
    shown = _SHOWN.get(name, name)
    if name in HARM:
        severity, why = HARM[name]
        for value, nodes in values.items():
            if value:
                unknown = f"which start-up file sets {shown}? take it away there"
                hint = set_by(nodes, context, account, shown, " sets it: take it away there", unknown)
                yield Found(severity, where, f"{shown} is {short(value)}", f"not set: {why}", hint, nodes)
        if severity != "note":
            return  # reported for each node that has it
    yield from drift(
        where,
        values,
        evidence,
        what=shown,
        hint=set_on(values, context, account, shown, f"compare start-up files: which one sets {shown}?"),
        say=lambda value: f"{shown} is {short(value) or 'not set'}",
    )


_LISTS = ("loaded", "PATH")


def _between_contexts(name: str, evidence: Evidence) -> Iterator[Across]:
    """Return the differences between contexts in the loaded modules, or in PATH without the system's folders."""
    passed = (
        () if name == "loaded" else (*_SYSTEM, f"{evidence.site.prefix}/")
    )  # the loaded modules are compared by their names

    def parts(facts: Facts, key: str) -> list[str] | None:
        found = facts.get(f"{key}ambient.{name}")
        return None if found is None else [part for part in elements(found) if not part.startswith(passed)]

    return across(evidence, parts)


def _in_other_contexts(evidence: Evidence) -> Iterator[Row]:
    for name in _LISTS:
        shown = _SHOWN.get(name, name)
        for found in _between_contexts(name, evidence):
            parts, context = (found.lacks, found.usual) if found.lacks else (found.also, found.context)
            names = [part_of(shown, part) for part in parts[:_PARTS]]
            mend = "; users of both kinds of shell get different programs"
            yield Found(
                "note",
                evidence.shell(found.context, found.account),
                f"{shown} {short(other_parts(found.also, found.lacks))}",
                f"as in {found.usual.name}",
                set_by(
                    found.nodes,
                    context,
                    found.account,
                    names,
                    f" adds it in {context.name}{mend}",
                    f"which start-up file of {context.name} adds it?{mend}",
                ),
                found.nodes,
            )


def _not_there(context: ShellContext, account: ShellAccount, fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    """Yield a warning for each locale or time zone that a shell sets and the node lacks."""
    key, where = f"{context_key(context, account)}ambient.", evidence.shell(context, account)

    def line(names: tuple[str, ...], nodes: tuple[str, ...], mend: str) -> Traced:
        return set_by(nodes, context, account, names, f" sets it: {mend}", mend, foreign=True)

    for said, nodes in fleet.by_value(f"{key}locale").items():
        yield Found(
            "warning",
            where,
            short(said),
            "a locale that the node has",
            line(
                _LOCALE,
                nodes,
                "`locale -a` lists the node's: generate that one (`locale-gen`, glibc-langpack-*), or set LANG=C.UTF-8",
            ),
            nodes,
        )
    for zone, nodes in fleet.by_value(f"{key}zone").items():
        yield Found(
            "warning",
            where,
            f"TZ is {short(zone)}, which the node does not know: programs take UTC",
            "a time zone of /usr/share/zoneinfo",
            line(("TZ",), nodes, "take it away there, or install tzdata where that lacks"),
            nodes,
        )


def _own_loads(evidence: Evidence) -> Iterator[tuple[ShellContext, ShellAccount, list[str], tuple[str, ...]]]:
    """Yield published entries that the user's own start-up files load: root's shells of the same kind lack them."""
    published = evidence.published.specs if evidence.published else {}
    roots = {context.name: fleet for context, account, fleet in evidence.contexts() if account == "root"}
    for context, account, fleet in evidence.contexts():
        if account == "root" or context.name not in roots:
            continue
        of_root = roots[context.name].by_value(f"{context_key(context, 'root')}ambient.loaded")
        for loaded, nodes in fleet.by_value(f"{context_key(context, account)}ambient.loaded").items():
            at_root = {name for value, of in of_root.items() if set(of) & set(nodes) for name in elements(value)}
            if own := [name for name in elements(loaded) if name in published and name not in at_root]:
                yield context, account, own, nodes


def _loaded_by_own_files(evidence: Evidence) -> Iterator[Row]:
    for context, account, own, nodes in _own_loads(evidence):
        known = " does it, in every shell and job: in a job script, or a collection (`module save`), it is where it is needed"
        yield Found(
            "warning",
            evidence.shell(context, account),
            f"{', '.join(own)} is loaded before anybody loads a module",
            "shells that begin without",
            set_by(nodes, context, account, "LOADEDMODULES", known, f"a start-up file of the user{known}"),
            nodes,
        )


def _shadows(context: ShellContext, account: ShellAccount, fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    key, where = f"{context_key(context, account)}ambient.", evidence.shell(context, account)
    for kind in ("function", "alias"):
        begins = f"{key}{kind}."
        for name in fleet.names(begins):
            for said, nodes in fleet.by_value(f"{begins}{name}").items():
                line, _, file = said.partition(" ")
                found = f"`{name}` is {'a function' if kind == 'function' else f'an alias: {short(said)}'}"
                known = " defines it: take it away there"
                hint: str | Traced = f"{file}:{line}{known}"
                if kind == "alias":
                    unknown = f"`grep -rn 'alias {name}' /etc/profile.d /etc/bash.bashrc /etc/bashrc ~` names the file"
                    hint = set_by(nodes, context, account, name, known, unknown)
                elif file in ("", "environment"):
                    hint = f"it was exported (`export -f {name}`) by a shell before this one"
                yield Found("error", where, found, "the program that modules put into PATH", hint, nodes)


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"installs", "modules"}), joins=True)
