# Two watchers, for the end of stdin and for `envmgr_seconds`. They hold neither stdout nor stderr: the end of our output is the
# end of the script's. They end the process group: what has files to tidy up hears of it first, and a busy node has ten seconds for
# that. It hears of it more than once: a script that only begins would miss it. This shell stays until the script has ended, and
# says no more: Slurm kills all that is left of a step whose first process has ended.
#
# `kill … 0` is our process group: sshd and slurmstepd start a new one for us. A probe may leave a child behind that hangs in the
# kernel: it holds nothing of ours.
: "${envmgr_seconds?}"

envmgr_end() {
  trap '' TERM
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    kill -TERM 0
    PATH=/usr/bin:/bin command sleep 0.5
    kill -0 $$ || break
  done
  kill -KILL 0
}
exec 3<&0 </dev/null
(
  while read -r _; do :; done <&3
  envmgr_end
) >/dev/null 2>&1 &
(
  exec 3<&-
  PATH=/usr/bin:/bin command sleep "$envmgr_seconds"
  envmgr_end
) >/dev/null 2>&1 &
exec 3<&-
unset -f envmgr_end
trap 'exec >/dev/null 4>&1' TERM
