# What a user has in this shell. `first` is an entry to load, or empty.
: "${first?}"
put modulepath "${MODULEPATH-}"
tool='' contexts_is="another program's" said=$(command -v module 2>/dev/null && type module 2>/dev/null)
case $said in
  module[!A-Za-z]*) ;; # no program of that name
  "alias module="*) said=alias:LMOD_CMD${LMOD_CMD-none} ;;
  *) said= ;;
esac
# shellcheck disable=SC3044 # bash's
case ${BASH_VERSION:+bash}:$said in bash:*function*) put module_from "$(shopt -s extdebug && declare -F module)" ;; esac
case $said in
  alias:LMOD_CMDnone) contexts_is=no ;;
  *LMOD_CMD*) contexts_is=yes ;;
  *function*)
    case ${LMOD_CMD:+lmod:}$(module --version 2>&1) in
      *"Modules based on Lua"*) contexts_is=yes ;;
      lmod:*Release* | lmod:*VERSION=*) ;;
      lmod:*) contexts_is=yes ;; # which does not answer: what it says reports that
      *Release* | *VERSION=*) tool="Environment Modules" ;;
    esac ;;
  *) case ${ENVMGR_ALIAS-} in '') contexts_is=no ;; modules) tool="Environment Modules" ;; *) contexts_is=yes ;; esac ;;
esac
put module "$contexts_is"
put tool "$tool"
if [ -n "$first" ] && [ -z "${ENVMGR_ALIAS-}" ] && [ -n "$said" ]; then
  # Our hook in Lmod tells for the check saved-collections what it knows: each Lmod is a tenth of this shell's work.
  contexts_said=${room?}/first.$$
  : 2>/dev/null >"$contexts_said" || contexts_said=/dev/null
  export ENVMGR_COLLECTIONS=tell
  module load "$first" >/dev/null 2>"$contexts_said"
  unset ENVMGR_COLLECTIONS
  whole_path path_loaded
  case :${LOADEDMODULES-}: in
    *":$first:"*)
      put loads yes
      [ "$contexts_said" = /dev/null ] || hook_said=
      while IFS= read -r said; do case $said in envmgr-collections:*) hook_said=${said#*: } ;; esac; done <"$contexts_said" ;;
    *) put loads "$(module load "$first" 2>&1 | plain | grep . | head -n 3 | tr '\n' ' ')" ;;
  esac
fi
