# shellcheck shell=sh
# Whether slurmd was told its name (`slurmd -N NAME`): then the host may have another.

for slurm_pid in $(pidof slurmd 2>/dev/null); do
  slurm_command=$(tr '\000' ' ' <"/proc/$slurm_pid/cmdline" 2>/dev/null)
  case " $slurm_command " in *" -N"*) put slurm.named yes ;; esac
done
