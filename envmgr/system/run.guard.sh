# $1: a file descriptor; then a command. Runs it in a process group that dies with envmgr, whatever kills that: a watcher in it
# waits for the end of a pipe that envmgr holds. `setsid` would not do, nor PR_SET_PDEATHSIG, which grandchildren do not
# inherit. The watcher is not the program's child: a program which waits for all of its children does not wait for it.
# /proc/self/fd, because dash has one-digit files.

(
  (
    read -r _ </proc/self/fd/"$1"
    kill -KILL 0
  ) </dev/null >/dev/null 2>&1 &
)
shift
exec "$@"
