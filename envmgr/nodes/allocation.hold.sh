# For salloc: says what it got, by the mark $0, and holds it until stdin ends: envmgr has ended then, or wants it no more.

# shellcheck disable=SC2046 # each host is a word
echo "$0" "$SLURM_JOB_ID" "$SLURM_JOB_NODELIST" "$SLURM_JOB_CPUS_PER_NODE" "$SLURM_JOB_PARTITION" $(scontrol show hostnames "$SLURM_JOB_NODELIST")
exec cat >/dev/null
