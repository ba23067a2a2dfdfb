# shellcheck shell=bash
# $1: a folder with one for each step; $2: the program `env`; then the steps' scripts. The shell's own names start with __envmgr.

set +o history
umask 022
__envmgr_out=$1 __envmgr_env=$2 __envmgr_i=0
shift 2
__envmgr_steps=("$@")
set --
