# shellcheck shell=bash disable=SC1090,SC2154 # the packages' scripts; capture_run.begin.sh comes before
# One step; the same text for each, without a loop around it, as `break` in a script would end that loop, and without `|| …`,
# which would switch off a script's `set -e`. The DEBUG trap keeps the last command of the script itself (not of its functions):
# only so does `return 1` differ from a last test that was false. A variable that a script leaves in the shell without exporting
# it is in `variables` and not in `env`.

__envmgr_at=$__envmgr_out/$__envmgr_i __envmgr_last=
set -T
trap '[[ -n ${FUNCNAME-} || $BASH_COMMAND == *__envmgr* ]] || __envmgr_last=$BASH_COMMAND' DEBUG
source "${__envmgr_steps[__envmgr_i]}" </dev/null >|"$__envmgr_at/output" 2>&1
__envmgr_status=$? __envmgr_ended=$__envmgr_last
trap - DEBUG
__envmgr_umask=$(umask)
umask 022
set +aefuvxTC +o pipefail 2>/dev/null
builtin declare -F >|"$__envmgr_at/functions"
builtin alias -p >|"$__envmgr_at/aliases"
builtin pwd -P >|"$__envmgr_at/folder"
printf '%s\n' "$__envmgr_umask" >|"$__envmgr_at/umask"
builtin jobs -rp >|"$__envmgr_at/jobs"
builtin compgen -v >|"$__envmgr_at/variables"
"$__envmgr_env" -0 >|"$__envmgr_at/env"
while read -r __envmgr_job; do kill -KILL "$__envmgr_job"; done <"$__envmgr_at/jobs" 2>/dev/null
printf '%s\n' "$__envmgr_status" "$__envmgr_ended" >|"$__envmgr_at/status"
__envmgr_i=$((__envmgr_i + 1))
