# shellcheck shell=sh
# What start-up files have left of the shell's own settings: `shell_flags` and `shell_ifs` are as the probe found them.
: "${shell_flags?}" "${shell_ifs?}"

shell_said=$(printf '%s\n' "${shell_said-}" | sed -e "s/$(uname -n)/NODE/g" -e 's/envmgr-audit\.[A-Za-z0-9]*/envmgr-audit/g')
[ -z "$shell_said" ] || put shell_state.said "$shell_said"

# shellcheck disable=SC3028 # asked of the shells that have them
{
  if [ -n "${BASH_VERSION-}" ]; then
    put shell_state.reader bash
    if [ "$shell_ifs" != "$IFS" ]; then put shell_state.ifs "$(printf '%s' "$shell_ifs" | od -An -c | tr -s ' ')"; fi
    shell_left=
    for shell_option in e:errexit f:noglob u:nounset C:noclobber a:allexport x:xtrace v:verbose; do
      case $shell_flags in *"${shell_option%%:*}"*) shell_left="$shell_left ${shell_option#*:}" ;; esac
    done
    for shell_option in nullglob failglob nocaseglob nocasematch; do
      case :${BASHOPTS-}: in *":$shell_option:"*) shell_left="$shell_left $shell_option" ;; esac
    done
    put shell_state.options "${shell_left# }"
  elif [ -n "${ZSH_VERSION-}" ]; then
    put shell_state.reader zsh
  fi
}
