# shellcheck shell=sh
# How a job ends: its answer is kept until the process that takes it has ended, for `envmgr_turns` tenths of a second at most. What the
# script has left behind ends before.
: "${envmgr_dir?}" "${envmgr_turns?}"

PATH=/usr/bin:/bin command mv "$envmgr_dir/answer" "$envmgr_dir/whole"
envmgr_end_rest
trap 'trap "" TERM; PATH=/usr/bin:/bin command rm -rf "$envmgr_dir"; exit 143' TERM
(
  PATH=/usr/bin:/bin
  left=$envmgr_turns
  while [ -d "$envmgr_dir" ] && [ "$left" -gt 0 ]; do
    if read -r taken <"$envmgr_dir/taken" && [ ! -d "/proc/$taken" ]; then break; fi
    left=$((left - 1))
    command sleep 0.1
  done 2>/dev/null
  command rm -rf "$envmgr_dir"
)
exit 0
