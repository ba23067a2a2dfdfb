"""What a module must never set: variables that make programs outside the entry load or run something, that move or break Lmod, or
that say who and where the user is.

One rule for the `environment` of recipes, for activation scripts of packages, and for modules that another tool made.
"""

from __future__ import annotations

import re

# Sources: ld.so(8); glibc's `unsecvars.h`; bash(1); environ(7); python(1); perlrun(1); lua(1); git(1); Lmod's manual.
_REACHES = re.compile(
    r"""
    # the loader and the C library: libraries, character sets, locales, and where names of hosts come from
    LD_(?!GOLD$|RUN_PATH$)\w+  # these two are a linker's, which packages of compilers name
    | GCONV_PATH | GETCONF_DIR | GLIBC_TUNABLES | LOCPATH | MALLOC_TRACE | NIS_PATH | HOSTALIASES | LOCALDOMAIN | RES_OPTIONS | RESOLV_\w+
    # shells: what they run at their start and at each prompt, and how they read
    | BASH\w* | ENV | SHELLOPTS | PROMPT_COMMAND | PS[0-4] | IFS | CDPATH | FPATH | ZDOTDIR | INPUTRC | GLOBIGNORE | EXECIGNORE
    | POSIXLY_CORRECT | LESSOPEN | LESSCLOSE
    # Python, and other languages' options for every program
    | PYTHON(HOME|PATH|STARTUP|USERBASE|INSPECT|BREAKPOINT|PLATLIBDIR|EXECUTABLE|WARNINGS|PYCACHEPREFIX|OPTIMIZE)
    | PERL5OPT | PERL5DB\w* | RUBYOPT | NODE_OPTIONS | JAVA_TOOL_OPTIONS | JDK_JAVA_OPTIONS | _JAVA_OPTIONS
    | TAR_OPTIONS | GREP_OPTIONS | GZIP
    | GIT_(DIR|WORK_TREE|COMMON_DIR|EXEC_PATH|TEMPLATE_DIR|SSH\w*|PROXY_COMMAND|ASKPASS|EDITOR|SEQUENCE_EDITOR|PAGER|EXTERNAL_DIFF|CONFIG\w*)
    | SSH_ASKPASS | SUDO_ASKPASS
    """,
    re.VERBOSE | re.ASCII,
)
# What modules there are, and Lmod itself, which runs by Lua.
_MOVES = re.compile(
    r"MODULE\w* | LMOD_\w* | __LMOD\w* | _LMFILES_\w* | _ModuleTable\w* | LOADEDMODULES | ENVMGR_\w* | LUA_(INIT|PATH|CPATH)\w*",
    re.VERBOSE | re.ASCII,
)
_TELLS = re.compile(r"HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|TMPDIR|UID|EUID|PPID|SHLVL|_", re.ASCII)


def fault_in_variable(name: str, *, as_list: bool) -> str:
    """Why no module may change the variable; empty where one may. `as_list`: only by adding elements to it."""
    if _REACHES.fullmatch(name) or _MOVES.fullmatch(name):
        return "it reaches into other programs"
    if _TELLS.fullmatch(name):
        return "it says who and where the user is"
    if name == "PATH" and not as_list:
        return "the user's own would be gone; `prepend` adds to it"
    return ""
