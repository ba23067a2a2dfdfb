# shellcheck shell=bash
# After this a module is loaded, and nothing else; the shell ends where that fails. Whatever Lmod it inherited is forgotten first.

envmgr_failed() {
  echo "envmgr: on $(uname -n): $1" >&2
  exit "${envmgr_status?}"
}
unset -v "${!LMOD_@}" "${!__LMOD_@}" "${!_ModuleTable@}" LOADEDMODULES _LMFILES_ MODULEPATH MODULEPATH_ROOT
unset -f module ml 2>/dev/null
export MODULEPATH=${envmgr_modules?} LMOD_RC=${envmgr_lmodrc?} LMOD_CACHED_LOADS=yes
[ -r "${envmgr_init?}" ] || envmgr_failed "Lmod is not there: cannot read $envmgr_init"
[ -d "$MODULEPATH" ] || envmgr_failed "the modules are not there: no folder $MODULEPATH"
# shellcheck disable=SC1090 # Lmod's
. "$envmgr_init"
ENVMGR_USAGE=no module load "${envmgr_entry?}" || envmgr_failed "cannot load $envmgr_entry"
case ":$LOADEDMODULES:" in *:"$envmgr_entry":*) ;; *) envmgr_failed "Lmod did not load $envmgr_entry" ;; esac
unset -f envmgr_failed
unset -v envmgr_init envmgr_modules envmgr_lmodrc envmgr_entry envmgr_status
