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

import re

from envmgr.audit.compare.between_nodes import in_other_shells
from envmgr.audit.model import AskedShell, Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.modulepath import elements
from envmgr.modules.nodesetup import PROGRAM
from envmgr.probe.model import Facts
from envmgr.report import Severity
from envmgr.system.shelltext import assign, script_text

# Variables that change what modules give; the table has a row for each. These count wherever they are set.
_SET = """
    PYTHONHOME PYTHONPATH PYTHONUSERBASE PYTHONSTARTUP LD_PRELOAD LD_AUDIT LUA_INIT LUA_INIT_5_1 LUA_INIT_5_2
    LUA_INIT_5_3 LUA_INIT_5_4 SLURM_JOB_ID CUDA_VISIBLE_DEVICES PIP_TARGET PIP_PREFIX PIP_USER LMOD_EXACT_MATCH
    LMOD_DISABLE_SAME_NAME_AUTOSWAP PERL5LIB R_LIBS CONDA_EXE LD_LIBRARY_PATH CONDA_PREFIX VIRTUAL_ENV
""".split()
# These count where they are exported: others matter only to the shell (CDPATH at a prompt), or always exist (SHELLOPTS).
# Source: bash(1), "Shell Variables"; POSIX.1-2017, `cd` and `sh`; the manuals of GNU coreutils, grep, tar and gzip;
# perlrun(1).
_EXPORTED = """
    CDPATH POSIXLY_CORRECT SHELLOPTS BASHOPTS TAR_OPTIONS GREP_OPTIONS GZIP GIT_DIR PERL5OPT RUBYOPT LD_DEBUG
    PYTHONINSPECT PYTHONOPTIMIZE PYTHONSAFEPATH LUA_PATH LUA_PATH_5_3 LUA_PATH_5_4 LUA_CPATH LUA_CPATH_5_3
    LUA_CPATH_5_4
""".split()

_MOST = 40  # so many names of programs are looked up at most
_SYSTEM = ("/usr/", "/bin", "/sbin", "/snap/")
_ALWAYS = ("pip", "python", "python3")

_SHOWN = {"loaded": "LOADEDMODULES"}
_HARMFUL = (*_SET, *_EXPORTED)
_COMPARED = (*_HARMFUL, "BASH_ENV", "PATH", "loaded")
# Not compared by `_exported`: the variables above, those of other checks, and those that sessions, jobs and Lmod set.
_PASSED = (
    "^(PWD|OLDPWD|SHLVL|HOSTNAME|HOST|TERM|SSH_.*|XDG_.*|DBUS_.*|SLURM.*|PMI.*|PMIX.*|KRB5CCNAME|LS_COLORS|MODULEPATH|MANPATH|LMOD_.*"
    "|LOADEDMODULES|SHELL|LM_LICENSE_FILE_.*|TARG_.*|SRUN_DEBUG|SBATCH_EXPORT|ENVMGR_.*|MODULESHOME|ROCR_.*|GPU_DEVICE_ORDINAL|"
)

_OPTIONS = ("SBATCH_", "SRUN_", "SALLOC_")
# Variables that programs of modules and Slurm's commands read: another value on one node gives another result there.
_MEANS = re.compile(
    r"proxy$|LICEN[CS]E|^(?!XDG_|SSH_)[A-Z0-9_]+_(HOME|ROOT|DIR|PATH)$|"
    r"^(SSL_|REQUESTS_CA|CURL_CA|CC$|CXX$|FC$|F77$|F90$|MPICC|LANG|LC_|TZ$|OMP_|MKL_|OPENBLAS|NCCL_|UCX_|OMPI_|OPAL_|PRTE_|PSM|PMIX|MPICH|MV2_|"
    r"I_MPI|FI_|HWLOC_|CUDA|NVIDIA|HIP_|ROC|TORCH|TF_|HF_|XLA_|PIP_|CONDA|MAMBA|PYTHON|PYENV|SPACK|EASYBUILD|EESSI_|LD_|SBATCH_|SRUN_|SALLOC_|TMP|TEMP|"
    r"APPTAINER|SINGULARITY|MALLOC_|GLIBC_|KMP_|GOMP_|NUMBA|JAX_|HDF5_|R_LIBS|PERL|JULIA_|JAVA_|CLASSPATH$|TCLLIBPATH$|CPATH$|SETVARS_)",
    re.IGNORECASE,
)
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
            ambient_passed=_PASSED + "|".join(_COMPARED) + ")=",
            ambient_variables=" ".join(name for name in (*_SET, "BASH_ENV") if name != "SLURM_JOB_ID"),
            ambient_harmful=" ".join(_EXPORTED),
        )
        + script_text(__file__, "context.sh")
    }


def judge(evidence: Evidence) -> Rows:
    for shell in evidence.each_shell():
        asked = shell.having("ambient.PATH")
        for name in _COMPARED:
            yield from _variable(name, asked, evidence)
        yield from _functions(asked, evidence)
        yield from _options_of_slurm(asked, evidence)
        yield from _exported(asked, evidence)
    for name in ("loaded", "PATH"):
        yield from _in_other_shells(name, evidence)
    yield from _loaded_by_own_files(evidence)
    yield from _inherited_by_jobs(evidence)


def _variable(name: str, shell: AskedShell, evidence: Evidence) -> Rows:
    values = shell.by_value(f"ambient.{name}", default="")
    shown = _SHOWN.get(name, name)
    if name in _HARMFUL:
        for value, nodes in values.items():
            if value:
                yield evidence.say(name, nodes, shell, name=name, value=value)
        if evidence.table.rows[name].severity != "note":
            return  # reported for each node that has it
    yield evidence.compared("variable", values, shell, name=shown)


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


def _is_kept(name: str) -> bool:
    """Return True for a variable that goes into a baseline: one that programs read.

    Slurm and logins set the others again each time.
    """
    return bool(_MEANS.search(name)) and not _OF_SLURM.search(name)


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


def _exported(shell: AskedShell, evidence: Evidence) -> Rows:
    """Yield the exported variables that differ between nodes, except those with another value on each node."""
    groups = [(_variables(group.facts, shell), group.nodes) for group in shell.fleet.groups]
    count = len(shell.fleet.nodes)
    for name in sorted({name for variables, _ in groups for name in variables}):
        values: dict[str, tuple[str, ...]] = {}
        for variables, nodes in groups:
            value = variables.get(name, "")
            values[value] = (*values.get(value, ()), *nodes)
        if (len(values) == 1 and _is_kept(name)) or 1 < len(values) < count or count == len(groups) == len(values) == 2:
            severity: Severity = "warning" if _MEANS.search(name) else "note"
            kept = _is_kept(name)
            yield evidence.compared("variable", values, shell, kept=kept, severity=severity, name=name)


def _inherited_by_jobs(evidence: Evidence) -> Rows:
    """Yield variables that jobs inherit from the submitting shell, if the node's own login bash lacks that value.

    Only variables that programs read count.
    """
    if (login := evidence.login_shell()) is None:
        return
    own: dict[str, dict[str, str]] = {}
    for group in login.fleet.groups:
        own |= dict.fromkeys(group.nodes, _variables(group.facts, login))
    for shell in evidence.each_shell():
        told: dict[tuple[str, str], list[str]] = {}
        for group in shell.fleet.groups if shell.context.export == "ALL" else ():
            for name, value in _variables(group.facts, shell).items():
                if _is_kept(name):
                    of_jobs = [node for node in group.nodes if node in own and own[node].get(name) != value]
                    told.setdefault((name, value), []).extend(of_jobs)
        for (name, value), nodes in told.items():
            if nodes:
                yield evidence.say("inherited", nodes, shell, name=name, value=value)


def _variables(facts: Facts, shell: AskedShell) -> dict[str, str]:
    lines = facts.get(f"{shell.key}ambient.exported", "").splitlines()
    return dict(line.partition("=")[::2] for line in lines)


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"installs", "modules"}), joins=True)
