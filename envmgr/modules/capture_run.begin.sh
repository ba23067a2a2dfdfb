# shellcheck shell=bash
# $1: a folder with one for each step; $2: the program `env`; then the steps' scripts. The shell's own names start with __envmgr.

set +o history
umask 022
# shellcheck disable=SC2034 # capture_run.step.sh follows
__envmgr_out=$1 __envmgr_env=$2 __envmgr_i=0
shift 2
# shellcheck disable=SC2034
__envmgr_steps=("$@")
set --
