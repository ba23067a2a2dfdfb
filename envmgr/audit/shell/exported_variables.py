"""Variables that shells export: which of them differ, and which change shells and programs for everybody."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from envmgr.audit.causes import Traced, set_by, set_on
from envmgr.audit.compare.between_nodes import drift
from envmgr.audit.model import Evidence, Found, Row
from envmgr.audit.wording import short
from envmgr.probe.model import Fleet, ShellAccount, ShellContext
from envmgr.probe.shell import context_key
from envmgr.report import Severity

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


def _is_kept(name: str) -> bool:
    """Return True for a variable that goes into a baseline: one that programs read.

    Slurm and logins set the others again each time.
    """
    return bool(_MEANS.search(name)) and not _OF_SLURM.search(name)


def set_at_login(
    name: str, values: Mapping[str, tuple[str, ...]], evidence: Evidence, unknown: str, before: str = ""
) -> Traced | str:
    """Return the hint of `set_on` in the ordinary user's login shell; `before` comes first."""
    return set_on(values, evidence.login_shell(), "user", name, unknown, before)


def options_of_slurm(context: ShellContext, account: ShellAccount, fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    """Yield SBATCH_PARTITION and the like, which sbatch and srun take for options.

    Only login shells are looked at, because users submit jobs from them.
    """
    if context.name != "bash-login":
        return
    told: dict[tuple[str, str], list[str]] = {}
    for variables, of_group in _variables(context_key(context, account), fleet):
        for name, value in variables.items():
            if name.startswith(_OPTIONS):
                told.setdefault((name, value), []).extend(of_group)
    for (name, value), nodes in told.items():
        known = " sets it: does Slurm still know that?"
        yield Found(
            "note",
            evidence.shell(context, account),
            f"{name} is {short(value)}",
            "not set: Slurm's commands take it for an option",
            set_by(nodes, context, account, name, known, f"a start-up file{known}"),
            nodes,
        )


def _exported_values(
    context: ShellContext, account: ShellAccount, fleet: Fleet
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return variable -> value -> nodes, for exported variables without another value on each node."""
    groups = _variables(context_key(context, account), fleet)
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for name in sorted({name for variables, _ in groups for name in variables}):
        values: dict[str, tuple[str, ...]] = {}
        for variables, nodes in groups:
            value = variables.get(name, "")
            values[value] = (*values.get(value, ()), *nodes)
        if len(values) == 1 or len(values) < len(fleet.nodes) or len(fleet.nodes) == len(groups) == 2:
            found[name] = values
    return found


def exported(context: ShellContext, account: ShellAccount, fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    where = evidence.shell(context, account)
    for name, values in _exported_values(context, account, fleet).items():
        if len(values) == 1 and not _is_kept(name):
            continue
        yield from drift(
            where,
            values,
            evidence,
            what=name,
            kept=_is_kept(name),
            severity="warning" if _MEANS.search(name) else "note",
            hint=set_on(values, context, account, name, f"compare start-up files: which one sets {name}?"),
            say=lambda value, name=name: f"{name} is {short(value) or 'not set'}",  # type: ignore[misc]
        )


def inherited_by_jobs(evidence: Evidence) -> Iterator[Row]:
    """Yield variables that jobs inherit from the submitting shell, if the node's own login bash lacks that value.

    Only variables that programs read count.
    """
    login = next((fleet for c, a, fleet in evidence.contexts() if c.name == "bash-login" and a == "user"), None)
    if login is None:
        return
    own = {node: variables for variables, nodes in _variables("ctx.bash-login.user.", login) for node in nodes}
    for context, account, fleet in evidence.contexts():
        told: dict[tuple[str, str], list[str]] = {}
        for variables, nodes in _variables(context_key(context, account), fleet) if context.export == "ALL" else ():
            for name, value in variables.items():
                if _MEANS.search(name) and not _OF_SLURM.search(name):
                    of_jobs = [node for node in nodes if node in own and own[node].get(name) != value]
                    told.setdefault((name, value), []).extend(of_jobs)
        for (name, value), told_of in told.items():
            if told_of:
                yield Found(
                    "warning",
                    evidence.shell(context, account),
                    f"{name} is {short(value)}, inherited from the submitting shell",
                    "what login shells of the node have",
                    f"a start-up file of the host where jobs are submitted sets {name}: take it away there, or "
                    f"`unset {name}` in TaskProlog",
                    told_of,
                )


def _variables(key: str, fleet: Fleet) -> list[tuple[dict[str, str], tuple[str, ...]]]:
    """Return the exported variables of each group of nodes."""
    lines = ((group.facts.get(f"{key}ambient.exported", "").splitlines(), group.nodes) for group in fleet.groups)
    return [(dict(line.partition("=")[::2] for line in of), nodes) for of, nodes in lines]


# Reported where they are exported: others matter only to the shell (CDPATH at a prompt), or always exist (SHELLOPTS).
# Source: bash(1), "Shell Variables"; POSIX.1-2017, `cd` and `sh`; the manuals of GNU coreutils, grep, tar and gzip;
# perlrun(1).
HARM_EXPORTED: Mapping[str, tuple[Severity, str]] = {
    "CDPATH": (
        "warning",
        "`cd NAME` in each script may go to a folder of it, and prints that: `$(cd NAME && pwd)` is two lines",
    ),
    "POSIXLY_CORRECT": (
        "warning",
        "programs take no options after operands, and each bash is in posix mode and reads no start-up file but ENV",
    ),
    "SHELLOPTS": (
        "warning",
        "each bash below has these options, and what one script sets (`set -e`) goes on in all that it starts",
    ),
    "BASHOPTS": (
        "warning",
        "each bash below has these options, and what one script sets (`shopt -s`) goes on in all that it starts",
    ),
    "TAR_OPTIONS": ("warning", "each tar takes it for options"),
    "GREP_OPTIONS": ("note", "a grep before 3.6 takes it for options in each script, or warns on stderr"),
    "GZIP": ("note", "each gzip takes it for options, and warns on stderr"),
    "GIT_DIR": ("warning", "each git works on that repository, wherever it is started"),
    "PERL5OPT": ("warning", "each Perl takes it for options"),
    "RUBYOPT": ("warning", "each Ruby takes it for options"),
    "LD_DEBUG": ("warning", "each program writes what the linker does"),
    "PYTHONINSPECT": ("warning", "each Python waits at a prompt when its script has ended"),
    "PYTHONOPTIMIZE": ("note", "each Python leaves assertions out"),
    "PYTHONSAFEPATH": ("note", "a Python script does not find modules that lie beside it"),
    **dict.fromkeys(
        ("LUA_PATH", "LUA_PATH_5_3", "LUA_PATH_5_4", "LUA_CPATH", "LUA_CPATH_5_3", "LUA_CPATH_5_4"),
        ("note", "Lua's programs look there for libraries; so does an Lmod that has no path of its own"),
    ),
}

# Variable -> its severity wherever it is set, and the reason.
HARM: Mapping[str, tuple[Severity, str]] = {
    "PYTHONHOME": ("error", "each Python of a module looks for its own library there"),
    "PYTHONPATH": ("warning", "each Python of a module imports from there first"),
    "PYTHONUSERBASE": ("note", "pip of a module installs there"),
    "PYTHONSTARTUP": ("note", "each interactive Python runs it"),
    "LD_PRELOAD": ("note", "each program of a module loads it"),
    "LD_AUDIT": ("note", "each program of a module loads it"),
    **dict.fromkeys(
        ("LUA_INIT", "LUA_INIT_5_1", "LUA_INIT_5_2", "LUA_INIT_5_3", "LUA_INIT_5_4"),
        ("error", "the Lua that runs Lmod runs that first, in each `module`"),
    ),
    "SLURM_JOB_ID": ("warning", "it is no job's, or another job's: srun asks for that one, and fails"),
    "CUDA_VISIBLE_DEVICES": ("note", "programs of modules see these GPUs alone"),
    "PIP_TARGET": ("note", "pip of a module installs there"),
    "PIP_PREFIX": ("note", "pip of a module installs there"),
    "PIP_USER": ("warning", "pip refuses to install into virtual environments"),
    "LMOD_EXACT_MATCH": ("note", "`module load NAME` without a version does not find its default"),
    "LMOD_DISABLE_SAME_NAME_AUTOSWAP": (
        "note",
        "a second version of a loaded module is refused, and does not replace the first",
    ),
    "PERL5LIB": ("note", "each Perl takes its libraries from there first"),
    "R_LIBS": ("note", "each R takes its libraries from there first"),
    "CONDA_EXE": ("note", "conda's hook is in this shell: `conda activate` puts its Python before a module's"),
    "LD_LIBRARY_PATH": ("note", "programs of modules look there for libraries before the system's"),
    "CONDA_PREFIX": (
        "warning",
        "a conda environment is active: its programs come before the system's, and mix with a module's",
    ),
    "VIRTUAL_ENV": ("warning", "a virtual environment is active: its Python comes first"),
    **HARM_EXPORTED,
}
