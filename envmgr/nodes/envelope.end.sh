# shellcheck shell=sh
# Ends the watchers and what the script left behind, and lives. A Slurm job must not kill itself, or it counts as failed: what
# ignores SIGTERM is looked for one by one. Field 5 of /proc/PID/stat is the process group; field 2, in brackets, may hold
# anything. Source: proc_pid_stat(5).

trap '' TERM
command kill -TERM 0
set -f
# shellcheck disable=SC2086 # the fields behind the bracket
group() { set -- ${1##*) } && group=$3; }
read -r line </proc/$$/stat
group "$line"
ours=$group
set +f
for file in /proc/[0-9]*/stat; do
  pid=${file#/proc/}
  pid=${pid%/stat}
  [ "$pid" = $$ ] || { read -r line <"$file"; } 2>/dev/null || continue
  [ "$pid" = $$ ] || {
    set -f
    group "$line"
    set +f
    [ "$group" = "$ours" ] && command kill -KILL "$pid"
  }
done 2>/dev/null
