# shellcheck shell=bash
# For a login shell: one sbatch a node, with `envmgr_options`. $0 is the run's mark, the job's script comes on 89 up to it,
# then the nodes are `$@`. `envmgr_prepare`, where it is defined, comes before. Behind batch.conf.sh: a SLURM_CONF that names no file would
# make each sbatch wait for the network.
: "${envmgr_options[0]?}" "${envmgr_conf?}"

cd 2>/dev/null || cd / || exit
envmgr_script=$(PATH=/usr/bin:/bin command sed -n "/^$0\$/q;p" <&89)
exec 89<&-
envmgr_fault=$(PATH=/usr/bin:/bin slurm_conf_fault "$envmgr_conf")
if [ -z "$envmgr_fault" ] && declare -F envmgr_prepare >/dev/null; then envmgr_prepare; fi
for envmgr_node; do
  if [ -n "$envmgr_fault" ]; then
    printf '\n%s %s 1 sbatch: error: SLURM_CONF is %s, which %s\n' "$0" "$envmgr_node" "$SLURM_CONF" "$envmgr_fault"
    continue
  fi
  envmgr_said=$(printf '%s\n' "$envmgr_script" | sbatch "${envmgr_options[@]}" -w "$envmgr_node" 2>&1)
  printf '\n%s %s %s %s\n' "$0" "$envmgr_node" "$?" "${envmgr_said//$'\n'/; }"
done
printf '\n%s end\n' "$0"
