# shellcheck shell=sh
# $1: seconds in which a command must have ended, without those for which it waited for a processor; $2: how old, in seconds, the
# shell that asks may get by that; then the command. Its status, and 124 where it was ended, as timeout(1) has them.

limit=$(($1 * 100))
most=$(($2 * 100))
shift 2
now() {
  read -r uptime _ </proc/uptime
  uptime=${uptime%.*}${uptime#*.}
}
# add PID…: what these and all below them have waited to `waited`, in hundredths; for what has ended below them, in proportion. The
# kernel adds a wait when it is over: those that may be in one are put into `ready`, with what they have computed.
add() {
  for pid in "$@"; do
    run='' ended='' below=''
    read -r run queued _ <"/proc/$pid/schedstat"
    IFS= read -r ended <"/proc/$pid/stat"
    read -r below <"/proc/$pid/task/$pid/children"
    case ${ended##*) } in R*) ready="$ready $pid:$run" ;; esac
    [ "${run:-0}" -lt 1000 ] || wait_of "$run" "$queued" "${ended##*) }"
    # shellcheck disable=SC2086 # numbers
    add $below
  done
}
wait_of() { # RUN QUEUED, in nanoseconds, and the third and later fields of stat(5)
  run=$1 queued=$2
  # shellcheck disable=SC2086 # fields
  set -- $3
  waited=$((waited + queued / 10000000 + (${14:-0} + ${15:-0}) * (queued / 1000) / (run / 1000)))
}
look() { # how much of its time is left
  waited=0 ready=
  now
  add "$program"
  left=$((limit - (uptime - began - waited)))
}
doze() {
  sleep "$1" &
  nap=$!
  wait "$nap"
}
# It ends what has had its time, and does not wait for a processor just now.
watch() {
  trap 'kill "$nap"; exit 0' TERM
  left=$limit
  while [ "$left" -gt 0 ]; do
    doze $(((left + 99) / 100))
    look
    if [ "$left" -le 0 ] && [ -n "$ready" ]; then
      before=$ready
      doze 0.2
      look
      for each in $before; do
        case "$ready " in *" $each "*) left=1 ;; esac
      done
    fi
  done
  kill -s ALRM "$program" # it does then as it does at the end of its own time
}

since() { began=${20:-0}; } # the fields of stat(5) from the third on
IFS= read -r stat <"/proc/$PPID/stat"
# shellcheck disable=SC2086 # fields
since ${stat##*) }
now
most=$((most - (uptime - began)))
began=$uptime
[ "$most" -gt "$limit" ] || most=$limit
timeout -k 1 $(((most + 199) / 100)) "$@" &
program=$!
watch </dev/null >/dev/null 2>&1 &
watcher=$!
wait "$program"
status=$?
kill "$watcher" 2>/dev/null
exit "$status"
