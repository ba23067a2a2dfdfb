"""What a node is sent: the smoke tests of all entries as one part of a probe, run once the node's prefix has answered.

The node's shell never touches the prefix. Each test is a session of its own, which a signal reaches whole, and a watcher
ends it when that shell is gone: the connection was cut, or somebody pressed Ctrl-C.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envmgr.catalog.recipe import SmokeTest
from envmgr.modules.lmod import Lmod
from envmgr.modules.spec import ModuleSpec
from envmgr.smoke.here import GPU_FILES, MARKS, SLURM_VARIABLES, script_of, tests_of
from envmgr.system.run import clean_env

_TICKS = 20  # a second: the node looks every 0.05 s
_TAIL = 8192  # bytes of a failed test's output that are kept: its end
_ALL_TAILS = 1 << 18  # bytes of all of them together

# `alive` is a pipe that only this shell holds open for writing. Its lines say which process group runs; at its end without
# `done`, this shell was killed, and all in $here may be gone. A process id is given too, for a test that has not yet made its
# session.
_BEGIN = r"""
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
for file in @GPU_FILES@; do [ -e "/$file" ] || gpu=no; done
# killer PIPE PID: kill whoever holds the pipe, but for one. For sessions that a test made of its own.
killer='
for fd in $(find /proc/[0-9]*/fd -maxdepth 1 -lname "$1" -o -lname "$1 (deleted)" 2>/dev/null); do
  pid=${fd#/proc/} pid=${pid%%/*}
  [ "$pid" = "$2" ] || kill -KILL "$pid" 2>/dev/null
done'

mkfifo "$here/alive"
exec 3<>"$here/alive"
(setsid /bin/sh -c '
  trap "" HUP INT TERM
  while read -r line; do
    [ "$line" != done ] || exit 0
    group=$line
  done
  [ -z "$group" ] || kill -KILL "-$group" "$group"
  sh -c "$2" sh "$1/*/pipe" none
  rm -rf "$1"
' sh "$here" "$killer" <"$here/alive" >/dev/null 2>&1 3<&- &)
began=$(date +%s)
stuck=

cat >"$here/run.sh" <<'ENVMGR_RUN'
job=$1 user=$2 needs=$3
set -- bash --noprofile --norc "$job/test.sh"
[ "$(id -u)" != 0 ] || set -- setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups "$@"
case $needs in
  *slurm*)
    for name in @SLURM@; do
      eval "value=\${$name-}"
      [ -z "$value" ] || set -- "$name=$value" "$@"
    done
    srun=$(command -v srun) && set -- "PATH=@PATH@:${srun%/*}" "$@"
    ;;
esac
cd "$job/home"
before=$(date +%s%N)
env -i HOME="$job/home" TMPDIR="$job/home" USER="$user" LOGNAME="$user" @CLEAN@ \
  ${CUDA_VISIBLE_DEVICES+"CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES"} "$@"
echo "$? $((($(date +%s%N) - before) / 1000000))" >"$job/rc~"
mv "$job/rc~" "$job/rc"
ENVMGR_RUN

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
@MARKS@
  return 1
}

# run_test KEY TICKS NEEDS. `rc` is there when the test has ended, `told` when nobody holds its output any more: a process
# that outlives SIGKILL does.
run_test() {
  key=$1 allowed=$2 needs=$3 job=$here/$1 rc=timeout
  case $needs in
    *gpu*) [ "$gpu" = yes ] || { put "$key.skip" gpu; return; } ;;
  esac
  left=$((limit - ($(date +%s) - began) * @TICKS@))
  if [ -n "$stuck" ] || [ "$left" -le 0 ]; then
    put "$key.late" yes
    return
  fi
  [ "$left" -ge "$allowed" ] || rc=late allowed=$left
  ms=$((allowed * 1000 / @TICKS@))
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

"""


@dataclass(frozen=True, slots=True)
class NodeTest:
    """One test of one entry; `key` is the beginning of what a node tells of it."""

    key: str
    entry: str
    test: SmokeTest
    script: str


def jobs_of(
    specs: Sequence[ModuleSpec], modules: Path, lmodrc: Path, lmod: Lmod, slurm_options: Sequence[str]
) -> list[NodeTest]:
    """The tests of all entries, in order. `slurm_options` are as for `script_of`."""
    pairs = [(spec.entry, test) for spec in specs for test in tests_of(spec)]
    return [
        NodeTest(f"t{number}", entry, test, script_of(entry, test, modules, lmodrc, lmod, slurm_options))
        for number, (entry, test) in enumerate(pairs)
    ]


def seconds_of(jobs: Sequence[NodeTest]) -> float:
    """The longest that a node can take, with what is around each test."""
    return sum(job.test.timeout + 5 for job in jobs)


def node_script(jobs: Sequence[NodeTest], *, seconds: float) -> str:
    """The part of a probe that runs `jobs`, one after the other, in `seconds` altogether; needs `$prefix` and `$user`."""
    clean = {k: v for k, v in clean_env().items() if k not in {"HOME", "USER", "LOGNAME", "TMPDIR"}}
    words = {
        "@CLEAN@": " ".join(f"{name}={shlex.quote(value)}" for name, value in clean.items()),
        "@GPU_FILES@": " ".join(GPU_FILES),
        "@MARKS@": "\n".join(
            f'  [ ! -e "$1/{mark}" ] || {{ echo {lacking}; return 0; }}' for mark, lacking in MARKS.items()
        ),
        "@PATH@": clean["PATH"],
        "@SLURM@": " ".join(SLURM_VARIABLES),
        "@TICKS@": str(_TICKS),
    }
    begin = _BEGIN
    for word, text in words.items():
        begin = begin.replace(word, text)
    most = max(1024, min(_TAIL, _ALL_TAILS // max(1, len(jobs))))
    settings = f"limit={math.ceil(seconds * _TICKS)}\nmost={most}\n"
    return "".join([settings, begin, *(_one(job) for job in jobs), "echo done >&3\n"])


def _one(job: NodeTest) -> str:
    """Every line of the test begins with `|`, so that none ends a here-document."""
    text = "".join(f"|{line}\n" for line in job.script.replace("\0", "").split("\n"))
    needs = "+".join(job.test.needs) or "-"
    ticks = math.ceil(job.test.timeout * _TICKS)
    return f"take {job.key} <<'ENVMGR_TEST'\n{text}ENVMGR_TEST\nrun_test {job.key} {ticks} {needs}\n"
