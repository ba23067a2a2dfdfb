# In the job that was submitted as users do: what the submitting shell had, what the job has of it, and a step of srun.
for submitting_name in MODULEPATH LOADEDMODULES PATH ENVMGR_CANARY; do
  eval "put submitting.wanted.$submitting_name \"\${WANTED_$submitting_name-}\""
  eval "put submitting.job.$submitting_name \"\${$submitting_name-}\""
done
with_limit 20 "$0.step" env SLURM_OVERLAP=1 srun -Q -n 1 -N 1 --mpi=none /bin/sh -c '
  for name in MODULEPATH LOADEDMODULES PATH ENVMGR_CANARY; do eval "printf \"%s \${$name-}\n\" \"\$name\""; done'
submitting_status=$?
if [ "$submitting_status" = 0 ]; then
  while read -r submitting_name submitting_said; do put "submitting.step.$submitting_name" "$submitting_said"; done <"$0.step"
else
  put submitting.no_step "$(if [ "$submitting_status" = 124 ]; then echo 'no end in 20 s'; else grep . "$0.step.err" | head -n 1 | cut -c1-200; fi)"
fi
