# $1: a pipe; $2: a process id. Kills all that holds the pipe, but for that one: for sessions that a test made of its own.

# shellcheck disable=SC2044 # names without blanks
for fd in $(find /proc/[0-9]*/fd -maxdepth 1 -lname "$1" -o -lname "$1 (deleted)" 2>/dev/null); do
  pid=${fd#/proc/} pid=${pid%%/*}
  [ "$pid" = "$2" ] || kill -KILL "$pid" 2>/dev/null
done
