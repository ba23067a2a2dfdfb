"""The rules that a recipe can accept, each by a key with a reason: `accept: {cuda-majors: why}`; and the commands that
no program of an entry hides without that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from envmgr.catalog.shell_rules import fault_in_variable

FILE_NEEDS = "file-needs"
HIDDEN = "hidden-commands"
MISSING_EXTENSIONS = "missing-extensions"
NOT_IMPORTED = "not-imported"
ON_UNLOAD = "on_unload"
RULES: Mapping[str, str] = {
    "cuda-majors": "packages for different majors of CUDA",
    "cuda-virtual": "packages of CUDA that the recipe does not ask for by `__cuda`, or by an older one",
    "cuda-driver": "CUDA without a driver requirement, or with one that is too old",
    "blas-variants": "`libblas`, `libcblas`, `liblapack` of different variants",
    "openmp-mutex": "an `_openmp_mutex` of another OpenMP than a package needs",
    "unmet-need": "a package that lacks what it needs, or has another build of it",
    "glibc-floor": "wheels for a newer glibc than the recipe requires",
    FILE_NEEDS: "packages whose files need others than their channel lists; a build looks, and takes those "
    "that the reason begins with",
    MISSING_EXTENSIONS: "extension modules that a source declares and its wheel lacks; a build looks, and takes those "
    "that the reason begins with",
    NOT_IMPORTED: "modules of wheels that were built from source; the test of these leaves out those that the reason "
    "begins with",
    HIDDEN: "programs with the name of a command of the system or of shells; a build looks, and takes those "
    "that the reason begins with",
}
"""The rules that a recipe may accept, each with a reason: `accept: {cuda-majors: why}`."""
SEEN_IN_BUILDS = frozenset({FILE_NEEDS, HIDDEN, MISSING_EXTENSIONS, NOT_IMPORTED})
"""Those whose faults no lock shows."""


def named_in(reason: str) -> frozenset[str]:
    """Return the names that a reason begins with, up to a colon and a space: `ssh, scp: a newer OpenSSH`. A reason
    without a colon names none.
    """
    names, colon, _ = reason.partition(": ")
    return frozenset(re.split(r"[\s,;]+", names.strip())) - {""} if colon else frozenset()


_VARIABLE = re.compile(r"variable:([A-Za-z_][A-Za-z0-9_]*|_?[A-Za-z][A-Za-z0-9]+_\*)")
_FUNCTION = re.compile(r"function:[A-Za-z_][A-Za-z0-9_]*")


def fault_in_key(key: str) -> str:
    """Return why a recipe cannot accept `key`; empty if it can."""
    if key in RULES or key == ON_UNLOAD or _FUNCTION.fullmatch(key):
        return ""
    named = _VARIABLE.fullmatch(key)
    if named is None:
        return (
            f"there is no rule `{key}`; known: {', '.join(sorted(RULES))}, {ON_UNLOAD}, variable:NAME, "
            "variable:STEM_*, function:NAME"
        )
    fault = fault_in_variable(named[1], as_list=True)
    return f"no recipe can accept {named[1]}: {fault}" if fault else ""


def key_for(accept: Mapping[str, str], rule: str) -> str:
    """Return the key of `accept` that covers `rule` (`variable:PROJ_DATA`, also by `variable:PROJ_*`); empty if there
    is none.
    """
    if rule in accept:
        return rule
    return next((key for key in accept if key.endswith("_*") and rule.startswith(key[:-1])), "")


# Of bash, zsh, dash and tcsh. Source: their manuals, "Shell builtin commands".
_BUILTINS = """
. : [ alias bg bind break builtin caller case cd chdir command compgen complete compopt continue coproc declare dirs
disown echo emulate enable eval exec exit export false fc fg foreach function getopts hash help history if jobs kill
let limit local logout mapfile nice nohup notify onintr popd print printenv printf pushd pwd read readarray readonly
rehash repeat return select set setenv setopt shift shopt source stop suspend switch test then time times trap true
type typeset ulimit umask unalias unhash unlimit unset unsetenv unsetopt until wait whence where which while
"""
_SHELLS = "sh bash rbash dash ash ksh mksh zsh csh tcsh fish"
# Who a user is, and becomes; what guards files and hosts.
_ACCOUNTS = """
sudo sudoedit sudoreplay visudo su doas pkexec runuser setpriv login nologin passwd chpasswd chsh chfn newgrp sg
gpasswd useradd usermod userdel groupadd vipw ssh ssh-add ssh-agent ssh-copy-id ssh-keygen ssh-keyscan sshd sshpass
scp sftp slogin rsh rcp rlogin mosh munge unmunge
"""
_SYSTEM = """
awk basename cat chgrp chmod chown chroot cp cut date dd df dirname du egrep env expr fgrep find grep head hostname id
join less ln ls man mkdir mktemp more mv nl paste ps pwd readlink realpath rm rmdir seq sleep sort split stat stty
tail tee timeout touch tr tty uname uniq vi wc who whoami xargs mount umount fusermount fusermount3 unshare nsenter
systemctl systemd-run journalctl dmesg ip iptables nft crontab at batch
"""
_SLURM = """
sacct sacctmgr salloc sattach sbatch sbcast scancel scontrol scrun sdiag sinfo sprio squeue sreport srun sshare sstat
strigger sview slurmctld slurmd slurmdbd slurmstepd
"""
_MODULES = "module ml modulecmd lmod clearMT clearLmod settarg envmgr"
COMMANDS = frozenset(f"{_BUILTINS} {_SHELLS} {_ACCOUNTS} {_SYSTEM} {_SLURM} {_MODULES}".split())
