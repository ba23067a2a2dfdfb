"""The things that break users' shells and programs, and that no module may do: variables, values that not every shell
gets, names of functions, and text that csh would change.

The rules are the same for the `environment` of recipes, for activation scripts of packages, and for modules that another
tool made. Everything else is for the eyes of reviewers: the package's own programs are on PATH and run anyway.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from envmgr.wording import first_unseen, number_of

# Sources: ld.so(8); glibc's `unsecvars.h`; bash(1); environ(7); python(1); perlrun(1); lua(1); git(1); Lmod's manual.
_REACHES = re.compile(
    r"""
    # the loader and the C library: libraries, character sets, locales, and where names of hosts come from
    LD_(?!GOLD$|RUN_PATH$)\w+  # these two are a linker's, which packages of compilers name
    | GCONV_PATH | GETCONF_DIR | GLIBC_TUNABLES | LOCPATH | MALLOC_TRACE | NIS_PATH | HOSTALIASES | LOCALDOMAIN
    | RES_OPTIONS | RESOLV_\w+
    # shells: what they run at their start and at each prompt, and how they read
    | BASH\w* | ENV | SHELLOPTS | PROMPT_COMMAND | PS[0-4] | IFS | CDPATH | FPATH | ZDOTDIR | INPUTRC | GLOBIGNORE
    | EXECIGNORE | POSIXLY_CORRECT | LESSOPEN | LESSCLOSE
    # Python, and other languages' options for every program
    | PYTHON(HOME|PATH|STARTUP|USERBASE|INSPECT|BREAKPOINT|PLATLIBDIR|EXECUTABLE|WARNINGS|PYCACHEPREFIX|OPTIMIZE)
    | PERL5OPT | PERL5DB\w* | RUBYOPT | NODE_OPTIONS | JAVA_TOOL_OPTIONS | JDK_JAVA_OPTIONS | _JAVA_OPTIONS
    | TAR_OPTIONS | GREP_OPTIONS | GZIP
    | GIT_(DIR|WORK_TREE|COMMON_DIR|EXEC_PATH|TEMPLATE_DIR|SSH\w*|PROXY_COMMAND|ASKPASS|EDITOR|SEQUENCE_EDITOR|PAGER)
    | GIT_(EXTERNAL_DIFF|CONFIG\w*)
    | SSH_ASKPASS | SUDO_ASKPASS
    # what modules there are, and Lmod itself, which runs by Lua
    | MODULE\w* | LMOD_\w* | __LMOD\w* | _LMFILES_\w* | _ModuleTable\w* | LOADEDMODULES | ENVMGR_\w*
    | LUA_(INIT|PATH|CPATH)\w*
    """,
    re.VERBOSE | re.ASCII,
)
_TELLS = re.compile(r"HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|TMPDIR|UID|EUID|PPID|SHLVL|_", re.ASCII)
_LIBRARIES = frozenset({"LD_LIBRARY_PATH", "PYTHONPATH"})
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def lies_in(folder: str, own: Sequence[object]) -> bool:
    """Return whether the folder is one of the `own` ones or below one, as names say."""
    path = PurePath(folder)
    return ".." not in path.parts and any(path.is_relative_to(str(each)) for each in own)


def fault_in_variable(name: str, *, as_list: bool, added: Sequence[str] = (), own: Sequence[object] = ()) -> str:
    """Return why no module may change the variable; empty if one may. `as_list`: only by adding elements to it.

    Software that is not linked to its own libraries may add its `own` folders to the lists of libraries.
    """
    if name in _LIBRARIES and as_list and own:
        sound = added and all(lies_in(each, own) for each in added)
        return "" if sound else "it reaches into other programs, and may get only folders of the software itself"
    if _REACHES.fullmatch(name):
        return "it reaches into other programs"
    if _TELLS.fullmatch(name):
        return "it says who and where the user is"
    if name == "PATH" and not as_list:
        return "the user's own would be gone; `prepend` adds to it"
    return ""


def fault_in_value(value: str, *, as_list: bool) -> str:
    """Return why not every shell gets this value; empty if bash, sh, zsh, ksh, csh, tcsh and fish do. `as_list`:
    elements between colons.

    Lmod hands csh its text in backquotes, and expands `~` in lists; zsh looks programs up after `=`. Tried with Lmod
    8.6.19 and tcsh 6.24, which reads Lmod's output in pieces.
    """
    if unseen := first_unseen(value):
        return f"it holds {number_of(unseen)}: neither shells nor people get it as it is"
    if not value.isascii():
        return "tcsh loses bytes of characters that are not ASCII, where the locale is C"
    if braces := sorted({*value} & {*"{}!"}):
        return f"csh reads `{braces[0]}` in it"
    if value.startswith("=") or ":=" in value:
        return "zsh reads `=` at the beginning of it, or after a colon, as a program to look up"
    elements = value.split(":") if as_list else ()
    if any(element.startswith("~") for element in elements):
        return "Lmod puts the home of the user in the place of `~`: write `${HOME}`"
    if any(element != element.strip() for element in elements):
        return "Lmod takes spaces around the elements of a list away"
    return ""


_HISTORY = re.compile(r"(?<!\\)!(?![\s=(]|$)")  # tcsh(1), "History substitution"; in quotes too


def fault_in_csh(text: str) -> str:
    """Return why csh would change the text, which Lmod hands over in backquotes; empty if it would not."""
    if not text.isascii():
        return "tcsh loses bytes of characters that are not ASCII, where the locale is C"
    for word in text.split():
        if "{" in word and word != "{":
            return f"csh opens braces, in quotes too: `{word[:40]}`"
    if found := _HISTORY.search(text):
        return f"csh reads `{text[found.start() : found.start() + 40]}` as a line of its history"
    return "a backslash at its end may quote what follows" if text.endswith("\\") else ""


# What no program and no function of an entry stands for. Of bash, zsh, dash and tcsh: their builtins and reserved words.
# Source: their manuals, "Shell builtin commands".
_BUILTINS = """
. : [ alias bg bind break builtin caller case cd chdir command compgen complete compopt continue coproc declare dirs
disown do done echo elif else emulate enable esac eval exec exit export false fc fg fi for foreach function getopts hash
help history if in jobs kill
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
