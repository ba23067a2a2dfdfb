# How a job begins: a folder on the node for its answer, in /tmp, or in /dev/shm where that has no room. The script sees the job's
# environment and nothing of ours: no variable is exported, traps are not inherited by a subshell. A job that is cancelled ends what
# it has started itself: a Slurm without cgroups finds no process whose parent has ended. It says so again and again, as what only
# begins would miss it: Slurm says it once.
: "${envmgr_nonce?}"

envmgr_child=
envmgr_over() {
  trap '' TERM
  PATH=/usr/bin:/bin
  # No `wait`: in a trap that interrupted one, bash may wait for ever for a child that it has seen end.
  while [ -n "$envmgr_child" ] && command kill -0 "$envmgr_child"; do
    command kill -TERM 0
    command sleep 0.2
  done 2>/dev/null
  command rm -rf "$envmgr_dir"
  envmgr_end_rest
  exit 143
}
for envmgr_base in /tmp /dev/shm; do
  envmgr_dir=$envmgr_base/envmgr-$envmgr_nonce-$SLURM_JOB_ID
  trap envmgr_over TERM
  if PATH=/usr/bin:/bin command mkdir -m 700 "$envmgr_dir" && printf '%1048576s' '' >"$envmgr_dir/room"; then break; fi
  PATH=/usr/bin:/bin command rm -rf "$envmgr_dir"
done 2>/dev/null
PATH=/usr/bin:/bin command rm "$envmgr_dir/room" || exit 73
