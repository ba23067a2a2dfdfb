"""Variables that change what modules, shells and programs do for all who have them: told wherever they are, also where all nodes have them."""

from __future__ import annotations

from collections.abc import Mapping

from envmgr.finding import Severity

# Told where they are exported: a shell's own is its own affair (CDPATH at a prompt), or always there (SHELLOPTS).
# Source: bash(1), "Shell Variables"; POSIX.1-2017, `cd` and `sh`; the manuals of GNU coreutils, grep, tar and gzip; perlrun(1).
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

# Variable -> how bad it is wherever it is, and why.
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
