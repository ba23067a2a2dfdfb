# shellcheck shell=sh
# Whether slurmd was told its name (`slurmd -N NAME`): then the host may have another. What the node's own slurm.conf has.

for slurm_pid in $(pidof slurmd 2>/dev/null); do
  slurm_command=$(tr '\000' ' ' <"/proc/$slurm_pid/cmdline" 2>/dev/null)
  # Jobs inherit the cores on which slurmd may run.
  slurm_cores=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$slurm_pid/status" 2>/dev/null)
  [ "$slurm_cores" = "$(cat /sys/devices/system/cpu/online 2>/dev/null)" ] && slurm_cores=all
  put slurm.cores "$slurm_cores"
  case " $slurm_command " in *" -N"*) put slurm.named yes ;; esac
done
slurm_conf=${SLURM_CONF:-/etc/slurm/slurm.conf}
if [ -r "$slurm_conf" ]; then
  put slurm.conf "$slurm_conf"
  put slurm.prolog "$(sed -n -E 's/^[[:space:]]*[Tt]ask[Pp]rolog[[:space:]]*=[[:space:]]*([^[:space:]#]+).*/\1/p' "$slurm_conf" | tail -n 1)"
  put slurm.sum "$(sed -e 's/#.*//' -e 's/[[:space:]]*$//' "$slurm_conf" | grep . | sum)"
fi
