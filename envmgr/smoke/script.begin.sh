# The smoke tests of a node: functions for the calls that follow. `killer` and `watcher` are script.kill.sh and script.watch.sh,
# `marks` are FILE=WHAT that a test leaves in its home, `limit` is in ticks, `most` in bytes.
: "${prefix?}" "${user?}" "${gpu_files?}" "${killer?}" "${watcher?}" "${marks?}" "${limit?}" "${most?}" "${ticks_a_second?}"

umask 022
here=${0%/*}
own scratch "$here"
if [ "$(id -u)" != 0 ]; then
  user=$(id -un)
elif ! uid=$(id -u "$user" 2>/dev/null); then
  put unfit "there is no user $user"
  exit 0
elif [ "$uid" = 0 ]; then
  put unfit "$user is root there"
  exit 0
fi
gpu=yes
for file in $gpu_files; do [ -e "/$file" ] || gpu=no; done
mkfifo "$here/alive"
exec 3<>"$here/alive"
(setsid /bin/sh -c "$watcher" sh "$here" "$killer" <"$here/alive" >/dev/null 2>&1 3<&- &)
began=$(date +%s)
stuck=

# write_run: script.run.sh, with what it is given, on stdin.
write_run() { cat >"$here/run.sh"; }

# take KEY: a test's lines on stdin, each behind a `|`.
take() {
  mkdir "$here/$1"
  sed 's/^|//' >"$here/$1/test.sh"
}

# wait_for FILE TICKS: less often after the first seconds
wait_for() {
  ticks=0
  until [ -e "$1" ] || [ "$ticks" -ge "$2" ]; do
    if [ "$ticks" -lt 60 ]; then
      sleep 0.05
      ticks=$((ticks + 1))
    else
      sleep 0.25
      ticks=$((ticks + 5))
    fi
  done
}

prefix_answers() {
  rm -f "$here/answers"
  (ls -d "$prefix/." && : >"$here/answers") </dev/null >/dev/null 2>&1 3<&- &
  wait_for "$here/answers" 100
  [ -e "$here/answers" ]
}

# lacks HOME: what a test needed and did not find
lacks() {
  for told in $marks; do
    if [ -e "$1/${told%=*}" ]; then
      echo "${told#*=}"
      return 0
    fi
  done
  return 1
}

# run_test KEY TICKS NEEDS. `rc` is there when the test has ended, `told` when no process holds its output any more: a
# process that outlives SIGKILL does.
run_test() {
  key=$1 allowed=$2 needs=$3 job=$here/$1 rc=timeout
  case $needs in
    *gpu*) [ "$gpu" = yes ] || {
      put "$key.skip" gpu
      return
    } ;;
  esac
  left=$((limit - ($(date +%s) - began) * ticks_a_second))
  if [ -n "$stuck" ] || [ "$left" -le 0 ]; then
    put "$key.late" yes
    return
  fi
  [ "$left" -ge "$allowed" ] || rc=late allowed=$left
  ms=$((allowed * 1000 / ticks_a_second))
  mkdir "$job/home"
  mkfifo "$job/pipe"
  [ "$(id -u)" != 0 ] || chown "$user:" "$job/home" "$job/pipe"
  (
    sh -c 'echo $$ >"$1/reader"; exec tail -c "$2" <"$1/pipe"' sh "$job" "$most" | tr -d '\000' >"$job/out"
    : >"$job/told"
  ) 3<&- &
  setsid /bin/sh "$here/run.sh" "$job" "$user" "$needs" </dev/null >"$job/pipe" 2>&1 3<&- &
  group=$!
  echo "$group" >&3
  wait_for "$job/rc" "$allowed"
  case $needs in
    *slurm*)
      if [ ! -e "$job/rc" ]; then # srun takes its job along only when it is asked to end
        kill -TERM "-$group" 2>/dev/null
        sleep 1
      fi
      ;;
  esac
  kill -KILL "-$group" "$group" 2>/dev/null
  echo >&3
  wait_for "$job/told" 10
  if [ ! -e "$job/told" ] && read -r reader <"$job/reader"; then
    sh -c "$killer" sh "$job/pipe" "$reader"
    wait_for "$job/told" 40
  fi
  [ ! -e "$job/rc" ] || read -r rc ms <"$job/rc"
  if { [ ! -e "$job/rc" ] || [ ! -e "$job/told" ]; } && ! prefix_answers; then
    stuck=prefix
  elif [ ! -e "$job/told" ]; then
    stuck=process
  fi
  if [ -n "$stuck" ]; then
    put "$key.stuck" "$stuck"
    return
  elif [ "$rc" = late ]; then
    put "$key.late" yes
  elif [ "$rc" != 0 ] && lacking=$(lacks "$job/home"); then
    put "$key.skip" "$lacking"
  else
    put "$key.rc" "$rc"
    own "$key.ms" "$ms"
    [ "$rc" = 0 ] || lines "$key.out" <"$job/out"
  fi
  rm -rf "$job"
}
