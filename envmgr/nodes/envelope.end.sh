# Ends the watchers and what the script left behind, and lives; SIGTERM to this shell still counts. A Slurm job must not kill itself,
# or it counts as failed. Field 5 of /proc/PID/stat is the process group; field 2, in brackets, may hold anything. Source: proc_pid_stat(5).

# shellcheck disable=SC2086 # the fields behind the bracket
group() { set -- ${1##*) } && group=$3; }
set -f
read -r line </proc/$$/stat
group "$line"
ours=$group
set +f
for signal in TERM KILL; do
  for file in /proc/[0-9]*/stat; do
    pid=${file#/proc/}
    pid=${pid%/stat}
    [ "$pid" = $$ ] || { read -r line <"$file"; } 2>/dev/null || continue
    [ "$pid" = $$ ] || {
      set -f
      group "$line"
      set +f
      [ "$group" = "$ours" ] && command kill "-$signal" "$pid"
    }
  done
done 2>/dev/null
