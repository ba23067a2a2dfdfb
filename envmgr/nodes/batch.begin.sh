# shellcheck shell=sh
# How a job begins: a folder on the node for its answer. The script sees the job's environment and nothing of ours: no variable
# is exported, traps are not inherited by a subshell. A job that is cancelled ends what it has started itself: a Slurm without
# cgroups finds no process whose parent has ended.
: "${envmgr_nonce?}"

envmgr_dir=/tmp/envmgr-$envmgr_nonce-$SLURM_JOB_ID
trap 'trap "" TERM; PATH=/usr/bin:/bin command rm -rf "$envmgr_dir"; envmgr_end_rest; exit 143' TERM
PATH=/usr/bin:/bin command mkdir -m 700 "$envmgr_dir" || exit 73
