# shellcheck shell=sh
# What start-up files have left of the shell's own settings: `shell_flags` and `shell_ifs` are as the probe found them.
: "${shell_flags?}" "${shell_ifs?}"

if [ -n "${shell_said-}" ]; then
  put shell_state.said "$(printf '%s\n' "$shell_said" | nameless | sed -e 's/envmgr-audit\.[A-Za-z0-9]*/envmgr-audit/g')"
  # Files of the home itself that are another's and closed: no links, without a second name, and HOME is the account's.
  account_of "$(id -un)"
  shell_left=${account_home?}
  case $shell_said in
    *'ermission denied'*)
      if [ "$(readlink -f "${HOME-}")" = "$(readlink -f "${shell_left:-${HOME-}}")" ]; then
        find "$HOME/" -maxdepth 1 -type f -links 1 ! -user "$(id -un)" ! -readable -name '.*' 2>/dev/null | sed 's|//|/|g' | LC_ALL=C sort | lines shell_state.closed
      fi
      ;;
  esac
fi

if [ -f /proc/self/fd/0 ] && [ -z "${shell_line-}" ]; then put shell_state.input taken; fi
own shell_state.waited "${shell_waited-}"
# Signals that a start-up file has had ignored (bits of SigIgn), and that its parent does not ignore: what is started from here cannot be
# ended by them. A shell at a terminal ignores TERM itself, and what runs in the background INT and QUIT. Of a hidden parent nothing is known.
shell_left=
shell_parent=ffffbfff
while read -r shell_name shell_mask; do [ "$shell_name" != SigIgn: ] || shell_parent=${shell_mask#????????}; done 2>/dev/null <"/proc/$PPID/status"
while read -r shell_name shell_mask; do
  [ "$shell_name" = SigIgn: ] || continue
  for shell_option in HUP:1 USR1:512 USR2:2048 PIPE:4096 ALRM:8192 TERM:16384 CHLD:65536 XCPU:8388608; do
    case $-$shell_option in *i*TERM:*) continue ;; esac
    [ $((0x${shell_mask#????????} & ~0x$shell_parent & ${shell_option#*:})) = 0 ] || shell_left="$shell_left ${shell_option%:*}"
  done
done 2>/dev/null <"/proc/$$/status"
[ -z "$shell_left" ] || put shell_state.ignores "${shell_left# }"
# What a login shell ends with, where a file that it reads at its end may change that.
# shellcheck disable=SC3044 # it is bash
if [ -n "${BASH_VERSION-}" ] && shopt -q login_shell && grep -q -s -E '(^|[^[:alnum:]_])(exit|exec)([^[:alnum:]_]|$)' "$HOME/.bash_logout" /etc/bash.bash_logout; then
  # In a home of its own: what such a file writes, or removes, is not the user's.
  if shell_home=$(mktemp -d /tmp/envmgr-audit.XXXXXX 2>/dev/null); then
    [ ! -f "$HOME/.bash_logout" ] || cp "$HOME/.bash_logout" "$shell_home/.bash_logout" 2>/dev/null
    env HOME="$shell_home" timeout 10 bash -l -c 'set +o history; history -c; exit 3' </dev/null >/dev/null 2>&1
    shell_left=$?
    rm -rf "$shell_home"
  else
    shell_left=3
  fi
  [ "$shell_left" = 3 ] || put shell_state.ends "$shell_left $(grep -n -s -E '(^|[^[:alnum:]_])(exit|exec)([^[:alnum:]_]|$)' /dev/null "$HOME/.bash_logout" /etc/bash.bash_logout | head -n 1 | cut -d: -f1,2)"
fi
# The probe starts shells in /; at a terminal people may want to be elsewhere.
case $- in *i*) ;; *) [ "$PWD" = / ] || put shell_state.folder "$PWD" ;; esac
# shellcheck disable=SC3028 # asked of the shells that have them
{
  if [ -n "${BASH_VERSION-}" ]; then
    put shell_state.reader bash
    if [ "$shell_ifs" != "$IFS" ] && [ "$shell_ifs" != unset ]; then put shell_state.ifs "$(printf '%s' "$shell_ifs" | od -An -c | tr -s ' ')"; fi
    shell_left=
    for shell_option in e:errexit f:noglob u:nounset C:noclobber a:allexport x:xtrace v:verbose; do
      case $shell_flags in *"${shell_option%%:*}"*) shell_left="$shell_left ${shell_option#*:}" ;; esac
    done
    for shell_option in nullglob failglob nocaseglob nocasematch; do
      case :${BASHOPTS-}: in *":$shell_option:"*) shell_left="$shell_left $shell_option" ;; esac
    done
    # Posix mode, where it is no sh and did not inherit it: that is reported with the variable.
    case ${BASH##*/}:$SHELLOPTS: in
      bash:*:posix:*) env | grep -q '^POSIXLY_CORRECT=' || shell_left="$shell_left posix" ;;
    esac
    put shell_state.options "${shell_left# }"
    # shellcheck disable=SC3045 # bash's
    readonly -p | sed -n -E 's/^declare -[a-z]+ (PATH|MODULEPATH|LOADEDMODULES|_LMFILES_|MANPATH|LD_LIBRARY_PATH|PYTHONPATH|LMOD_[A-Z_]*)=.*/\1/p' | lines shell_state.readonly
    # A script that is started from here by a shell which passes no functions on.
    if [ -n "${BASH_ENV-}" ] && [ -x "${LMOD_CMD-}" ]; then
      case $(env -i HOME="$HOME" PATH="$PATH" BASH_ENV="$BASH_ENV" MODULEPATH="${MODULEPATH-}" LMOD_CMD="${LMOD_CMD-}" \
        timeout 10 /bin/bash -c 'type -t module' 2>/dev/null | tail -n 1) in
        function) ;;
        *) put shell_state.bash_env "$BASH_ENV" ;;
      esac
    fi
  elif [ -n "${ZSH_VERSION-}" ]; then
    put shell_state.reader zsh
  fi
}
