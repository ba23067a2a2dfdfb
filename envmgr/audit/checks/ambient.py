"""Settings that a shell has before any module is loaded, in every context, if they change what modules give.

The check reports these wherever they occur, even where all nodes have them, because a fresh account would not:

- PYTHONHOME (each Python of a module looks for its own library there), and LUA_INIT (Lmod's own Lua runs it);
- variables that change what interpreters, loaders, shells and common programs do: PYTHONPATH, PYTHONWARNINGS, PERL5OPT,
  JAVA_TOOL_OPTIONS, MALLOC_CHECK_, GCONV_PATH, CDPATH, TAR_OPTIONS, GIT_DIR and their like, by patterns;
- variables that change what compilers do and where package managers install: CC, CFLAGS, CPATH, PIP_TARGET;
- an active conda or virtual environment, and a job's number where there is no such job;
- functions and aliases with the name of a program of a published entry;
- a locale or a time zone that the node lacks.

Variables that sites set on purpose are a note where all nodes have the same value: LD_PRELOAD, LD_LIBRARY_PATH,
CUDA_VISIBLE_DEVICES, XDG_CONFIG_HOME, and those of OpenMP, MPI, NCCL, Slurm, pip, EasyBuild and Git. Where modules are loaded, the check passes
over these and over the variables of compilers, because modules set them. Proxies are compared only.

The check compares nodes by PATH and its order, and the modules that are already loaded. Exported variables that differ
are a warning if programs read them, else a note. Variables that each session sets again
do not count. On one node, the check compares contexts by the loaded modules, and by the parts of PATH outside the
system's folders. A difference is a note. A finding names the file and line of the start-up file that causes it, if the
trace of one such shell shows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from envmgr.audit.compare.between_nodes import in_other_shells
from envmgr.audit.model import AskedShell, Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.modulepath import elements
from envmgr.audit.table import short
from envmgr.modules.node_paths import PROGRAM
from envmgr.probe.model import Facts
from envmgr.report import Severity
from envmgr.system.shelltext import assign, script_text

_MOST = 40  # so many names of programs are looked up at most
_SYSTEM = ("/usr/", "/bin", "/sbin", "/snap/")
_ALWAYS = ("pip", "python", "python3")

_SHOWN = {"loaded": "LOADEDMODULES"}
# Not looked at in `_exported`: PATH, the variables of other checks, and those that sessions, jobs and Lmod set.
_PASSED = (
    "^(PWD|OLDPWD|SHLVL|PATH|HOSTNAME|HOST|TERM|SSH_.*|XDG_([^C]|C[^O]).*|DBUS_.*|SLURM_(CONF|EXPORT_ENV|JOB.*|SUBMIT.*|TOPOLOGY.*|.*NODELIST)"
    "|KRB5CCNAME|LS_COLORS|MODULEPATH|MANPATH|LMOD_([^DE]|D[^I]|DI[^S]|E[^X]|EXT).*|LOADEDMODULES|SHELL|LM_LICENSE_FILE_.*|TARG_.*|SBATCH_EXPORT|ENVMGR_.*|MODULESHOME"
    ")=|^JUPYTER_PATH=[^:]*\\/generations\\/[0-9]+$"
)
_OF_JOBS = (
    "^(SLURM.*|PMI.*|SRUN_DEBUG|XDG_.*|ROCR_.*|GPU_DEVICE_ORDINAL)="  # what Slurm and its plugins set in each job
)

_OPTIONS = ("SBATCH_", "SRUN_", "SALLOC_")
# Variables that programs of modules and Slurm's commands read, beside those that the table names: another value on one node gives
# another result there.
_MEANS = re.compile(
    r"proxy$|LICEN[CS]E|^(?!XDG_|SSH_)[A-Z0-9_]+_(HOME|ROOT|DIR|PATH)$|"
    r"^(SSL_|REQUESTS_CA|CURL_CA|LANG|LC_|TZ$|BASH_ENV$|HF_|PYTHON|PYENV|EESSI_|CONDA|MAMBA|SPACK|SBATCH_|SRUN_|SALLOC_|TMP|TEMP|"
    r"APPTAINER|SINGULARITY|SETVARS_)",
    re.IGNORECASE,
)
_OF_MODULES = ("builds", "tools")  # kinds of variables that modules set on purpose
# Of these, the variables that Slurm, its prologs and logins set for each job.
_OF_SLURM = re.compile(
    r"^(SBATCH_|SRUN_|SALLOC_|TMP|TEMP|CUDA_VISIBLE|ROCR?_|PMI|LANG|LC_|TZ|OMP_PROC_BIND|OMP_PLACES)"
)


def probe(plan: AuditPlan) -> ProbeTexts:
    own = {install.program.rpartition("/")[2] for install in plan.installs if install.program}
    names = [
        name for name in sorted({*own, *_ALWAYS}) if name.replace("-", "").replace("_", "").replace(".", "").isalnum()
    ]
    return {
        "context": assign(
            ambient_names=" ".join(names[:_MOST]),
            ambient_without=PROGRAM,
            ambient_passed=_PASSED,
            ambient_of_jobs=_OF_JOBS,
        )
        + script_text(__file__, "context.sh")
    }


def judge(evidence: Evidence) -> Rows:
    of_login: dict[str, dict[str, str]] = {}
    if (login := evidence.login_shell()) is not None:
        for group in login.fleet.groups:
            of_login |= dict.fromkeys(group.nodes, _variables(group.facts, login))
    for shell in evidence.each_shell():
        asked = shell.having("ambient.PATH")
        for name in ("PATH", "loaded"):
            values = asked.by_value(f"ambient.{name}", default="")
            yield evidence.compared("variable", values, asked, name=_SHOWN.get(name, name), about="")
        for value, nodes in asked.by_value("ambient.SLURM_JOB_ID").items():
            yield evidence.say("no_job", nodes, asked, value=value)
        yield from _functions(asked, evidence)
        yield from _options_of_slurm(asked, evidence)
        inherited = of_login if shell.context.export == "ALL" else {}
        yield from _exported(asked, inherited, evidence)
        yield from _inherited_by_jobs(shell, inherited, evidence)
    for name in ("loaded", "PATH"):
        yield from _in_other_shells(name, evidence)
    yield from _loaded_by_own_files(evidence)


def _kind(name: str, value: str, evidence: Evidence) -> tuple[str, str]:
    """Return the row of a variable with this value, and what it changes, by the first of the table's patterns; empty without one."""
    for pattern, words in evidence.table.words.items():
        if re.fullmatch(f"(?:{pattern})(?:=.*)?", f"{name}={value}", re.DOTALL):
            kind, _, why = words.partition(": ")
            return kind, why
    return "", ""


def _functions(shell: AskedShell, evidence: Evidence) -> Rows:
    for name in shell.names("ambient.function."):
        for said, nodes in shell.by_value(f"ambient.function.{name}").items():
            line, _, file = said.partition(" ")
            row = "exported_function" if file in ("", "environment") else "function"
            yield evidence.say(row, nodes, shell, name=name, file=file, line=line)


def _in_other_shells(name: str, evidence: Evidence) -> Rows:
    """Yield the differences between shells in the loaded modules, or in PATH without the system's folders."""
    passed = () if name == "loaded" else (*_SYSTEM, f"{evidence.site.prefix}/")  # modules are compared by their names

    def parts(facts: Facts, shell: AskedShell) -> list[str] | None:
        found = facts.get(f"{shell.key}ambient.{name}")
        return None if found is None else [part for part in elements(found) if not part.startswith(passed)]

    return in_other_shells(evidence, _SHOWN.get(name, name), parts)


def _loaded_by_own_files(evidence: Evidence) -> Rows:
    """Yield published entries that the user's own start-up files load: root's shells of the same kind lack them."""
    published = evidence.published.specs if evidence.published else {}
    roots = {shell.context.name: shell for shell in evidence.each_shell() if shell.account == "root"}
    for shell in evidence.each_shell():
        if shell.account == "root" or shell.context.name not in roots:
            continue
        of_root = roots[shell.context.name].by_value("ambient.loaded")
        for loaded, nodes in shell.by_value("ambient.loaded").items():
            at_root = {name for value, of in of_root.items() if set(of) & set(nodes) for name in elements(value)}
            if own := [name for name in elements(loaded) if name in published and name not in at_root]:
                yield evidence.say("loaded_already", nodes, shell, entries=", ".join(own))


def _is_kept(name: str, evidence: Evidence) -> bool:
    """Return True for a variable that goes into a baseline: one that programs read.

    Slurm and logins set the others again each time.
    """
    return bool(_MEANS.search(name) or _kind(name, "", evidence)[0]) and not _OF_SLURM.search(name)


def _options_of_slurm(shell: AskedShell, evidence: Evidence) -> Rows:
    """Yield SBATCH_PARTITION and the like, which sbatch and srun take for options.

    Only login shells are looked at, because users submit jobs from them.
    """
    if shell.context.name != "bash-login":
        return

    def options(facts: Facts) -> list[tuple[str, str]]:
        return [each for each in _variables(facts, shell).items() if each[0].startswith(_OPTIONS)]

    for (name, value), nodes in shell.fleet.by_each(options).items():
        yield evidence.say("option_of_slurm", nodes, shell, name=name, value=value)


def _exported(shell: AskedShell, of_login: Mapping[str, Mapping[str, str]], evidence: Evidence) -> Rows:
    """Yield the exported variables that programs read and that a fresh account would not have, and those that differ
    between nodes, except those with another value on each node.

    Variables that modules set on purpose are passed over where modules are loaded, and what a job inherits is another row.
    """
    groups = [(_variables(group.facts, shell), group.nodes) for group in shell.fleet.groups]
    loaded = {node for value, nodes in shell.by_value("ambient.loaded").items() if value for node in nodes}
    count = len(shell.fleet.nodes)
    told: dict[tuple[str, str, tuple[str, ...], str], dict[str, str]] = {}
    for name in sorted({name for variables, _ in groups for name in variables}):
        values: dict[str, tuple[str, ...]] = {}
        for variables, nodes in groups:
            value = variables.get(name, "")
            values[value] = (*values.get(value, ()), *nodes)
        harmful = False
        for value, nodes in values.items():
            kind, why = _kind(name, value, evidence) if value else ("", "")
            harmful |= kind not in ("", "tools")
            if kind == "tools" and (len(values) > 1 or evidence.baseline is not None or shell.context.way != "ssh"):
                continue  # the comparison tells it; Slurm sets some in jobs
            passed = {node for node, of in of_login.items() if of.get(name) != value}
            passed |= loaded if kind in _OF_MODULES else set()
            if kind and (of_kind := tuple(node for node in nodes if node not in passed)):
                told.setdefault((kind, why, of_kind, "" if kind == "tools" else name), {})[name] = value
        kept = _is_kept(name, evidence)
        differ = 1 < len(values) < count or count == len(groups) == len(values) == 2
        if not harmful and (differ or (len(values) == 1 and kept)):
            severity: Severity = "warning" if kept or _OF_SLURM.search(name) else "note"
            about = _file(min(values, key=lambda value: len(values[value])))
            yield evidence.compared("variable", values, shell, kept=kept, severity=severity, name=name, about=about)
    for (kind, why, nodes, _), settings in told.items():
        said = ", ".join(f"{name} is {short(value)}" for name, value in settings.items())
        yield evidence.say(kind, nodes, shell, names=" ".join(settings), settings=said, why=why)


def _file(value: str) -> str:
    """Return what names the file that a variable does, as LUA_INIT and BASH_ENV do: what it does has the same cause."""
    return f"file {value.lstrip('@')}" if re.fullmatch(r"@?/[^:\s]+", value) else ""


def _inherited_by_jobs(shell: AskedShell, of_login: Mapping[str, Mapping[str, str]], evidence: Evidence) -> Rows:
    """Yield variables that jobs inherit from the submitting shell, if the node's own login bash lacks that value.

    Only variables that programs read count. Where login shells of other nodes have that value, the comparison tells it:
    the line of the submitting host is right then.
    """
    told: dict[tuple[str, str], list[str]] = {}
    own = {item for node in shell.fleet.nodes for item in of_login.get(node, {}).items()}
    for group in shell.fleet.groups if of_login else ():
        for name, value in _variables(group.facts, shell).items():
            if _is_kept(name, evidence) and (name, value) not in own:
                of_jobs = [node for node in group.nodes if node in of_login and of_login[node].get(name) != value]
                told.setdefault((name, value), []).extend(of_jobs)
    for (name, value), nodes in told.items():
        if nodes:
            yield evidence.say("inherited", nodes, shell, name=name, value=value)


def _variables(facts: Facts, shell: AskedShell) -> dict[str, str]:
    lines = facts.get(f"{shell.key}ambient.exported", "").splitlines()
    return dict(line.partition("=")[::2] for line in lines)


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"modules"}), joins=True)
