# shellcheck shell=sh
# Two watchers, for the end of stdin and for `envmgr_seconds`. They hold neither stdout nor stderr: the end of our output is the
# end of the script's. They end the process group: what has files to tidy up hears of it three seconds before, as a busy node may
# need them. This shell stays until the script has ended, and says no more: Slurm kills all that is left of a step whose first
# process has ended.
#
# `kill … 0` is our process group: sshd and slurmstepd start a new one for us. A probe may leave a child behind that hangs in the
# kernel: it holds nothing of ours.
: "${envmgr_seconds?}"

exec 3<&0 </dev/null
(
  while read -r _; do :; done <&3
  trap '' TERM
  kill -TERM 0
  PATH=/usr/bin:/bin command sleep 3
  kill -KILL 0
) >/dev/null 2>&1 &
(
  exec 3<&-
  PATH=/usr/bin:/bin command sleep "$envmgr_seconds"
  trap '' TERM
  kill -TERM 0
  PATH=/usr/bin:/bin command sleep 3
  kill -KILL 0
) >/dev/null 2>&1 &
exec 3<&-
trap 'exec >/dev/null 4>&1' TERM
