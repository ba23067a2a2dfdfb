"""What the users' own files change: `conda init`, a stale cache of Lmod's, ~/.lmodrc.lua and ~/.modulerc.

Looked at in login shells, for root and for the ordinary user. A `conda init` (or `mamba init`) block in a start-up file, the
user's or the system's, puts conda's own python first in every new shell: before that of the modules which are loaded
already, in a job for example. Where `auto_activate_base: false` is in ~/.condarc it puts only the conda command there, which
is a note. Lmod writes a cache of its own into the home (~/.lmod.d/.cache, ~/.cache/lmod since 8.7) when reading the modules
took long, and believes it for a day: where it is older than the modules it is about, new modules are hidden from that
user. ~/.lmodrc.lua and ~/.modulerc (.lua) are notes: they are that user's choice, and colour what the audit sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from envmgr.audit.lmod_config import LMOD_CONFIG
from envmgr.audit.model import Evidence
from envmgr.finding import Finding, Severity
from envmgr.nodes import fold
from envmgr.probe.model import ProbePlan, ProbeStage
from envmgr.probe.shell import context_key

# Lines `KIND FILE[|MODULES]`, of login bash alone: other contexts of the same account have the same home. A cache in use is one
# that Lmod takes (l_readCacheFile of its src/Cache.lua): younger than LMOD_ANCIENT_TIME, and newer than a system cache of the
# same folder.
_CONTEXT = (
    LMOD_CONFIG
    + r"""
user_files_conda() {
  conda_kind=conda
  ! grep -q -s -E '^ *auto_activate(_base)? *: *([Ff]alse|no|off)' "$HOME/.condarc" "$HOME/.conda/.condarc" || conda_kind=conda-off
  set -- "$HOME"/.bashrc "$HOME"/.bash_profile "$HOME"/.bash_login "$HOME"/.profile "$HOME"/.zshrc "$HOME"/.zprofile \
    "$HOME"/.zshenv "$HOME"/.cshrc "$HOME"/.tcshrc "$HOME"/.login /etc/profile /etc/bash.bashrc /etc/bashrc /etc/csh.cshrc \
    /etc/zshrc /etc/zsh/zshrc /etc/profile.d/*.sh /etc/profile.d/*.csh
  grep -l -s '^# >>> conda initialize >>>' "$@" | sed "s|^|$conda_kind |"
  grep -l -s '^# >>> mamba initialize >>>' "$@" | sed 's|^|mamba |'
}
user_files_cache() {
  folder=$HOME/.lmod.d/.cache
  ! grep -q -s '\.cache/lmod' "${LMOD_CMD%/*}/myGlobals.lua" || folder=$HOME/.cache/lmod
  [ -d "$folder" ] && [ ! -e "$folder/invalidated" ] && [ -z "${LMOD_IGNORE_CACHE-}" ] || return 0
  for file in "$folder"/spiderT*.lua; do
    [ -s "$file" ] || continue
    case $file in *.old.lua) continue ;; esac
    made=$(stat -c %Y "$file")
    [ "$(($(date +%s) - made))" -lt "${LMOD_ANCIENT_TIME:-86400}" ] || continue
    printf '%s\n' "${MODULEPATH-}" | tr : '\n' | sed 's|//*$||' | grep . | while read -r modules; do
      grep -q -F "[\"$modules\"]" "$file" && [ -n "$(find "$modules/" ! -type d -cnewer "$file" 2>/dev/null | head -n 1)" ] || continue
      ! user_files_covered "$modules" "$made" || continue
      printf 'cache %s|%s\n' "$file" "$modules"
    done
  done
}
user_files_covered() {
  lmod_config || return 1
  printf '%s\n' "$lmod_config" | sed -n 's/^cache\.[0-9]*\.1=//p' | while read -r system; do
    grep -q -s -F "[\"$1\"]" "$system/spiderT.lua" && [ "$(stat -c %Y "$system/spiderT.lua")" -ge "$2" ] && echo yes
  done | grep -q yes
}
if [ -n "${BASH_VERSION-}" ] && shopt -q login_shell; then
  (
    unset IFS
    user_files_conda
    for file in "$HOME/.lmodrc.lua" "$HOME/.modulerc" "$HOME/.modulerc.lua"; do
      [ ! -f "$file" ] || printf 'own %s\n' "$file"
    done
    [ -z "${LMOD_CMD-}" ] || user_files_cache
  ) 2>/dev/null | while read -r kind file; do
    case $file in
      "${HOME%/}"/*) file="~/${file#"${HOME%/}/"}" ;;
    esac
    printf '%s %s\n' "$kind" "$file"
  done | lines user_files
fi
"""
)


def probe(plan: ProbePlan) -> Mapping[ProbeStage, str]:  # noqa: ARG001 - the same for every plan
    return {"context": _CONTEXT}


def judge(evidence: Evidence) -> Iterator[Finding]:
    """One finding a file, however many contexts told of it."""
    found: dict[Finding, dict[str, None]] = {}
    for context, account, fleet in evidence.contexts():
        user = evidence.plan.user if account == "user" else "root"
        for lines, nodes in fleet.by_value(f"{context_key(context, account)}user_files").items():
            for line in lines.splitlines():
                found.setdefault(_finding(line, user), {}).update(dict.fromkeys(nodes))
    for finding, of in found.items():
        yield replace(finding, nodes=fold(tuple(of)))


def _finding(line: str, user: str) -> Finding:
    """Of a line of the probe; its nodes are filled in later."""
    kind, _, file = line.partition(" ")
    file, _, modules = file.partition("|")
    mine = file.startswith("~/")
    where = f"~{user}/{file[2:]}" if mine else file
    if kind == "cache":
        found = f"Lmod uses this cache of {user}'s own, and it is older than the modules in {modules}"
        hint = f"`rm -r {where.rpartition('/')[0]}`; a system cache of these modules would keep Lmod from writing it"
        return Finding("user-files", "warning", where, found, "no cache, or a newer one", hint)
    if kind == "own":
        found = f"changes what Lmod does for {user}"
        return Finding("user-files", "note", where, found, "no such file", "is it meant? else move it away")
    severity: Severity = "warning"
    tool = "mamba" if kind == "mamba" else "conda"
    found = f"a `{tool} init` block: in new shells conda's python comes before that of modules"
    if kind == "conda-off":
        severity, found = "note", "a `conda init` block; .condarc says not to activate base"
    undo = "mamba shell deinit" if kind == "mamba" else "conda init --reverse" + ("" if mine else " --system")
    hint = f"`{undo}` as {user if mine else 'root'}"
    return Finding("user-files", severity, where, found, "no such block", hint)
