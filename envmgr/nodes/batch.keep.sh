# How a job ends: its answer is kept until it was taken, and the process that takes it has ended, for `envmgr_turns` twentieths of a
# second at most. What the script has left behind ends before. `wait`: a shell hears of SIGTERM only then while a child runs.
: "${envmgr_dir?}" "${envmgr_turns?}"

envmgr_child=$!
command wait "$envmgr_child"
envmgr_child=
PATH=/usr/bin:/bin command mv "$envmgr_dir/answer" "$envmgr_dir/whole"
envmgr_end_rest
trap envmgr_over TERM
(
  PATH=/usr/bin:/bin
  left=$envmgr_turns
  taker=
  while [ "$left" -gt 0 ]; do
    [ -n "$taker" ] || { read -r taker <"$envmgr_dir/taker" && : >"$envmgr_dir/seen"; }
    if [ -n "$taker" ]; then
      [ -d "/proc/$taker" ] || break # it has the answer, or was ended: nobody else comes
    else
      [ -d "$envmgr_dir" ] || break
    fi
    left=$((left - 1))
    command sleep 0.05
  done 2>/dev/null
  command rm -rf "$envmgr_dir"
) &
envmgr_child=$!
command wait "$envmgr_child"
