"""`envmgr shell-init`: the few lines that make one shell use the prefix, pinned to a generation."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import ClassVar

from envmgr.commands import Context
from envmgr.errors import InputError
from envmgr.modules.lmod import find_lmod
from envmgr.report import Result

SHELLS = ("bash", "zsh", "sh", "csh", "tcsh")


@dataclass(frozen=True, slots=True)
class ShellInitResult(Result):
    schema: ClassVar[str] = "envmgr.shell-init/1"
    shell: str
    text: str


# A shell that inherits a pin of this prefix keeps it while that generation is there: a job runs with what it was submitted
# with.
# MODULEPATH names the generation and not `current`: Lmod reads a modulefile again to unload it.
_SH = """\
# envmgr: modules of {prefix}, pinned to the generation that is current when the shell starts
case "${{ENVMGR_PIN:-}}" in
  {prefix}/generations/*) [ -d "$ENVMGR_PIN/modules" ] || ENVMGR_PIN= ;;
  *) ENVMGR_PIN= ;;
esac
[ -n "$ENVMGR_PIN" ] || ENVMGR_PIN={prefix}/$(readlink {prefix}/current || :)
if [ -d "$ENVMGR_PIN/modules" ]; then
  export ENVMGR_PIN LMOD_RC="$ENVMGR_PIN/lmodrc.lua" LMOD_CACHED_LOADS=yes
  if ! type module >/dev/null 2>&1; then
    if [ -n "${{BASH_VERSION:-}}" ]; then . {init_bash}; elif [ -n "${{ZSH_VERSION:-}}" ]; then . {init_zsh}; else . {init}; fi
  fi
  # another generation that was inherited goes: a shell sees one
  for envmgr_path in $(printf '%s' "${{MODULEPATH:-}}" | tr : ' '); do
    case "$envmgr_path" in
      "$ENVMGR_PIN/modules") ;;
      {prefix}/generations/*) module unuse "$envmgr_path" ;;
    esac
  done
  unset envmgr_path
  case ":${{MODULEPATH:-}}:" in
    *":$ENVMGR_PIN/modules:"*) ;;
    *) module use "$ENVMGR_PIN/modules" ;;
  esac
else
  unset ENVMGR_PIN
fi
"""

_CSH = """\
# envmgr: modules of {prefix}, pinned to the generation that is current when the shell starts
if ( ! $?ENVMGR_PIN ) setenv ENVMGR_PIN ""
if ( "$ENVMGR_PIN" !~ {prefix}/generations/* || ! -d "$ENVMGR_PIN/modules" ) then
  setenv ENVMGR_PIN {prefix}/`readlink {prefix}/current`
endif
if ( -d "$ENVMGR_PIN/modules" ) then
  setenv LMOD_RC "$ENVMGR_PIN/lmodrc.lua"
  setenv LMOD_CACHED_LOADS yes
  if ( ! $?LMOD_CMD ) source {init}
  if ( "`alias module`" == "" ) source {init}
  if ( ! $?MODULEPATH ) setenv MODULEPATH ""
  foreach envmgr_path ( `echo "$MODULEPATH" | tr : " "` )
    if ( "$envmgr_path" =~ {prefix}/generations/* && "$envmgr_path" != "$ENVMGR_PIN/modules" ) then
      module unuse "$envmgr_path"
    endif
  end
  if ( ":${{MODULEPATH}}:" !~ *":${{ENVMGR_PIN}}/modules:"* ) then
    module use "$ENVMGR_PIN/modules"
  endif
else
  unsetenv ENVMGR_PIN
endif
"""


def shell_lines(ctx: Context, shell: str) -> ShellInitResult:
    """The lines for `shell`: `eval "$(envmgr shell-init bash)"`, or a file that the shell's start-up reads."""
    if shell not in SHELLS:
        raise InputError("unknown-shell", f"no lines for the shell `{shell}`", hint=f"known: {', '.join(SHELLS)}")
    lmod = find_lmod(ctx.site.lmod.dir, ctx.environ, runner=ctx.runner)
    csh = shell in ("csh", "tcsh")
    text = (_CSH if csh else _SH).format(
        prefix=ctx.site.prefix,  # a site's prefix has no character that a shell would touch
        init=shlex.quote(str(lmod.init_script("csh" if csh else shell))),
        init_bash=shlex.quote(str(lmod.init_script("bash"))),
        init_zsh=shlex.quote(str(lmod.init_script("zsh"))),
    )
    if csh:
        text = re.sub(r"\n\n+", "\n", text)
    return ShellInitResult(shell, text)
