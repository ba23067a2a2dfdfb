"""The rules for what a module does in a shell: the variables that it may set, the values that every shell gets, and the
text that a shell runs.

A module may set names of its own entry, and add its own folders to lists that say where things are looked for. A recipe
must accept all other variables with a reason; some it cannot accept. The rule is the same for the `environment` of
recipes, for activation scripts of packages, and for modules that another tool made. Shells parse the text of functions;
none runs it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath

from envmgr.catalog.names import variable_name
from envmgr.system.known_programs import KNOWN
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
    """,
    re.VERBOSE | re.ASCII,
)
# What modules there are, and Lmod itself, which runs by Lua.
_MOVES = re.compile(
    r"MODULE\w* | LMOD_\w* | __LMOD\w* | _LMFILES_\w* | _ModuleTable\w* | LOADEDMODULES | ENVMGR_\w* | "
    r"LUA_(INIT|PATH|CPATH)\w*",
    re.VERBOSE | re.ASCII,
)
_TELLS = re.compile(r"HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|TMPDIR|UID|EUID|PPID|SHLVL|_", re.ASCII)

# Lists that only say where things are looked for, by those that ask: programs, pages, headers, libraries to link, what
# a build finds. None by which a program that runs loads code. EBPYTHONPREFIXES is that of a Python that was built for
# it. Sources: man-db, Texinfo, GCC "Environment Variables", pkg-config(1), cmake-env-variables(7), aclocal(1), XDG Base
# Directory, libxml2.
SEARCHED = frozenset(
    """
    PATH MANPATH INFOPATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH OBJC_INCLUDE_PATH LIBRARY_PATH PKG_CONFIG_PATH
    CMAKE_PREFIX_PATH CMAKE_INCLUDE_PATH CMAKE_LIBRARY_PATH ACLOCAL_PATH XDG_DATA_DIRS XML_CATALOG_FILES
    EBPYTHONPREFIXES
    """.split()
)
# Where software that was built from source finds its own libraries; recipes and activation scripts may not set them at
# all.
_OF_INSTALLS = frozenset({"LD_LIBRARY_PATH", "PYTHONPATH"})
_XML = re.compile(r"file://(?=/)")
_XML_OF_SYSTEM = "/etc/xml/catalog"
_OWN = re.compile(r"(?P<stem>\w+)_(?:ROOT|HOME|DIR|BASE|PREFIX|VERSION)", re.ASCII)
# What modules of software that was built from source note for builds. Source: `convert_name` of the tool that writes
# them.
_NOTES = re.compile(r"EB(?:ROOT|VERSION|EXTSLIST)(?P<stem>\w+)", re.ASCII)
_NOTED = str.maketrans({"+": "plus", "-": "min", ".": ""})
# By this CMake, CuPy and PyTorch's builds find CUDA.
_CUDA = "CUDA_PATH"


def fault_in_variable(name: str, *, as_list: bool) -> str:
    """Return why no module may change the variable; empty if one may. `as_list`: only by adding elements to it."""
    if _REACHES.fullmatch(name) or _MOVES.fullmatch(name):
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


def is_own(name: str, owners: Collection[str]) -> bool:
    """Return whether the name is `<ENTRY>_ROOT`, `_HOME` … of one of `owners`, and no other known program uses that
    name.
    """
    found = _OWN.fullmatch(name)
    stems = {variable_name(owner) for owner in owners}
    return found is not None and found["stem"] in stems and KNOWN.fullmatch(found["stem"]) is None


def _is_note(name: str, owners: Collection[str]) -> bool:
    """Return whether builds find CUDA or other software by this name, and one of `owners` is that software."""
    found = _NOTES.fullmatch(name)
    if found is None:
        return name == _CUDA and "CUDA" in {owner.upper() for owner in owners}
    return found["stem"] in {owner.translate(_NOTED).upper() for owner in owners}


def may_go_unsaid(
    kind: str, name: str, elements: Sequence[str], *, owners: Collection[str], roots: Collection[str]
) -> bool:
    """Return whether a module may make the change although its recipe does not accept it.

    `kind` is that of `EnvOp`; `elements` are the elements of a list, or the one value. `owners` are names of entries,
    `roots` the folders of their installs.
    """
    if kind in ("prepend", "append"):
        if name == "XML_CATALOG_FILES":
            return all(_lies_in(each, roots, xml=True) for text in elements for each in text.split() or [""])
        return name in SEARCHED | _OF_INSTALLS and all(_lies_in(each, roots) for each in elements)
    named = is_own(name, owners) or _is_note(name, owners)
    return kind != "unset" and named and all(("/" not in e and "~" not in e) or _lies_in(e, roots) for e in elements)


def _lies_in(element: str, roots: Collection[str], *, xml: bool = False) -> bool:
    if xml:
        element = _XML.sub("", element)
        if element == _XML_OF_SYSTEM:
            return True
    path = PurePosixPath(element)
    # A colon would add a second element, and `..` would lead out of the install.
    return ":" not in element and ".." not in path.parts and any(path.is_relative_to(root) for root in roots)


_PARSERS = (("bash", "--noprofile", "--norc", "-n"), ("sh", "-n"), ("zsh", "-f", "-n"))
# The caller's PATH must not decide which shells read a recipe.
_PATH = "/usr/local/bin:/usr/bin:/bin"
_TIMEOUT = 60.0  # seconds
_HISTORY = re.compile(r"(?<!\\)!(?![\s=(]|$)")  # tcsh(1), "History substitution"; in quotes too

# Builtins and reserved words, in whose place a function would stand. Sources: bash(1), dash(1), zshbuiltins(1),
# tcsh(1), Lmod.
SHELL_WORDS = frozenset(
    """
    alias alloc autoload bg bind bindkey break breaksw builtin builtins bye caller case cd chdir command compgen
    complete compopt continue coproc declare default dirs disable disown do done echo echotc elif else emulate
    enable end endif endsw esac eval exec exit export false fc fg fi filetest float for foreach function functions
    getln getopts glob goto hash hashstat help history hup if in integer jobs kill let limit local log login logout
    mapfile ml module nice nocorrect noglob nohup notify onintr popd print printenv printf private pushd pushln pwd
    read readarray readonly rehash repeat return sched select set setenv setopt settc setty shift shopt source stop
    suspend switch telltc termname test then time times trap true ttyctl type typeset ulimit umask unalias
    uncomplete unfunction unhash unlimit unset unsetenv unsetopt until vared wait whence where which while zle
    zmodload zstyle
    """.split()
)


def fault_in_posix(text: str) -> str:
    """Return why bash, sh and zsh, as far as they are installed, do not read `text` as the whole body of one function;
    empty if they do.

    Text that is whole commands both by itself and between the braces of a function closes no function and opens none.
    """
    parsers = [(found, *words) for name, *words in _PARSERS if (found := shutil.which(name, path=_PATH))]
    if not parsers:
        return "no shell is here that could read it: bash or sh is needed"
    for argv in parsers:
        for whole in (f"{text}\n", f"f() {{\n{text}\n}}\n"):
            if (said := _fault_of_parser(argv, whole, LC_ALL="C.UTF-8")) is not None:
                return f"is not whole commands in {argv[0].rpartition('/')[2]}{f': {said}' if said else ''}"
    return ""


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


def fault_in_tcsh(text: str) -> str:
    """Return why tcsh, if it is installed, does not read the text as whole commands; empty if it does. tcsh parses it
    and runs nothing.
    """
    if (tcsh := shutil.which("tcsh", path=_PATH)) is None:
        return ""
    said = _fault_of_parser([tcsh, "-f", "-n"], f"{text}\n")
    return "" if said is None else f"is not whole commands in tcsh: {said}"


def _fault_of_parser(argv: Sequence[str], text: str, **env: str) -> str | None:
    """Return what a shell that only parses `text` says against it; None if it says nothing and ends well."""
    from envmgr.system.run import Runner, clean_env  # most recipes have no shell text

    done = Runner().run(argv, stdin=text, env=clean_env(**env), timeout=_TIMEOUT, check=False)
    said = " ".join(done.stderr.split())[:200]
    # bash only warns, with status 0, about a here-document that has no end.
    return said if done.returncode or said else None
