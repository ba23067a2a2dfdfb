# Variables of a login shell that Slurm's commands take for options. Nothing is asked in a job, or where there is no Slurm.
if [ -z "${job?}" ] && [ -z "${SLURM_JOB_ID-}" ] && [ -n "$(command -v sbatch)" ]; then
  env | LC_ALL=C grep -E '^(SLURM|SBATCH|SALLOC|SRUN)_[A-Z_]+=.{1,200}$' | LC_ALL=C sort | lines submitting.variables
fi
