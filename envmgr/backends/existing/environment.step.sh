# shellcheck shell=bash
# Run what `__envmgr_command` prints for this shell. A command that fails must not look like one that changes nothing.
: "${__envmgr_command?}" "${__envmgr_modules?}"

[[ -z $__envmgr_modules ]] || export MODULEPATH=$__envmgr_modules
__envmgr_text=$(eval "$__envmgr_command") || return $?
[[ $__envmgr_text != *$'\nfalse' && $__envmgr_text != false ]] || return 1
eval "$__envmgr_text"
