# What the main script of a probe has: jobs that are started, waited for and left behind. They are shells with a stage's file.
: "${limit?}" "${user?}" "${named_words?}"
tmp=
# stages: their files, and the library, from stdin: each behind a line `ENVMGR_STAGE NAME [MARK]`; users' start-up files run before those with a mark.
stages() {
  printf 'who=%s\nroom=%s\njob=%s\nhost_name=%s\nprobe_uid=%s\n. %s/library.sh\n' "${who?}" "$tmp/room" "${SLURM_JOB_ID-}" "${host_name?}" "${probe_uid?}" "$tmp" >"$tmp/given.sh"
  LC_ALL=C awk -v tmp="$tmp/" -v secret="${secret?}" '
    $1 != "ENVMGR_STAGE" { print >file; next }
    { file = tmp $2 ".sh"; if ($2 != "library") printf "mark=%s\n. %sgiven.sh\n", $3 ? secret : "", tmp >file }'
}

# start NAME COMMAND…: what it writes is bounded; `start_input` is its stdin. `as` ends in exec, hence the subshells. Scripts of ours
# may take the bound (the soft limit) off for what they run, and `fsize` says what there was; a user's start-up files may not.
start() {
  job=$1
  shift
  (
    soft=
    case $job in node | prefix) ulimit -f >"$tmp/fsize" && soft=-S ;; esac
    # shellcheck disable=SC2086 # no word, or one
    ulimit $soft -f 16384
    (cd / && "$@") >"$tmp/$job.out" 2>"$tmp/$job.err" 3>&-
    echo $? >"$tmp/$job.rc"
    echo >&3
  ) <"${start_input:-/dev/null}" >/dev/null 2>&1 &
}

# skip NAME PREFIX REASON: not started, and why; false.
skip() {
  put "$2end" "$3"
  ! echo skipped >"$tmp/$1.rc"
}

# known NAME PREFIX REASON: whether the node has the account `user`; where it does not, the job is skipped for REASON.
known() {
  if account_of "$user"; then return; fi
  if [ -s "$tmp/who.rc" ]; then skip "$1" "$2" "$3"; else skip "$1" "$2" "getent does not answer"; fi
}

# write_csh: a file of its own, as csh has no `.`, and takes no script in an argument with line breaks. Once: a csh may read it. By
# `savehist` a csh writes ~/.history before each `exec`.
write_csh() {
  [ -e "$tmp/context.csh" ] || cat >"$tmp/context.csh" <<'ENVMGR_CSH'
unset savehist savedirs
if ( "`alias module`" =~ *LMOD_CMD* ) setenv ENVMGR_ALIAS yes
if ( "`alias module`" =~ *modulecmd* ) setenv ENVMGR_ALIAS modules
exec /bin/sh "$1"
ENVMGR_CSH
}

# step COMMAND…: as a task that srun starts beside the job's other steps. Ends in exec.
step() { SLURM_OVERLAP=1 exec srun -Q -n 1 -N 1 --mpi=none "$@"; }

# at_pty OUTPUT FILE: FILE in an interactive bash of `srun --pty`, which needs a terminal (of script(1)); OUTPUT is not that.
at_pty() {
  command -v script >/dev/null || step /bin/sh "$tmp/interactive" "$2"
  exec script -qefc "SLURM_OVERLAP=1 exec srun -Q -n 1 -N 1 --mpi=none --pty /bin/sh -c 'exec /bin/sh $tmp/interactive $2 >>$1'" /dev/null >/dev/null
}

# join SECONDS NAME…: wait for some. Each that ends writes an empty line to the pipe of `begin`, and a clock writes the number of this call.
join_number=0
join() {
  join_number=$((join_number + 1)) join_line=
  (
    trap 'kill -KILL $!; exit' TERM
    sleep "$1" &
    wait
    echo "$join_number" >&3
  ) </dev/null >/dev/null 2>&1 &
  join_clock=$!
  shift
  for job in "$@"; do
    until [ -s "$tmp/$job.rc" ] || [ "$join_line" = "$join_number" ]; do read -r join_line <&3; done
  done
  kill "$join_clock" 2>/dev/null
}

# tell PREFIX NAME MARK KEYS: its facts, those that begin with the regex KEYS; and of a context, the first line that start-up files print.
tell() {
  end=${1:-$2.}end
  if [ ! -s "$tmp/$2.rc" ]; then
    put "$end" "no end in $limit s"
    return
  fi
  read -r rc <"$tmp/$2.rc"
  if [ "$rc" = skipped ]; then return; fi
  LC_ALL=C awk -v key="$1" -v mark="@$3" -v keys="^~?${4:-.}" -v host="$host_name" "$named_words"'
    index($0, mark) != 1 { if (NF && key != "" && noise == "") noise = $0; next }
    { $0 = substr($0, length(mark) + 1) }
    $0 == "done=yes" { done = 1; next }
    $0 ~ keys { own = sub(/^~/, ""); print "@" (own ? "~" : "") key $0 }
    END {
      if (noise != "") print "@" key "noise=" substr(nameless(noise, host), 1, 100)
      exit !done
    }' "$tmp/$2.out"
  done=$?
  if [ "$rc" = 153 ]; then
    put "$end" "its start-up files print more than 8 MB"
  elif [ "$rc" != 0 ]; then
    said=$(tail -n 1 "$tmp/$2.err" 2>/dev/null | cut -c1-200)
    put "$end" "exit status $rc${said:+: $said}"
  elif [ "$done" != 0 ]; then
    put "$end" "the shell ended before the probe in it: \`exit\` or \`exec\` in a start-up file?"
  fi
}
