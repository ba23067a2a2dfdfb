# shellcheck shell=bash
# envmgr_needs_slurm MARK MINUTES [NAME=VALUE…]: the test is left, with the file MARK in its home, where Slurm does not answer.
#
# Set for `srun`. Inside a job it makes a step of that job; elsewhere a job of its own, for as long as the test may take, which
# counts from its start, and with the variables NAME. Where that job runs, the test's own folders are not.
envmgr_needs_slurm() {
  local srun mark=$1 minutes=$2
  shift 2
  { srun=$(type -P srun) && [ -x "$srun" ] && { [ -n "${SLURM_JOB_ID-}" ] || timeout 10 sinfo -h >/dev/null 2>&1; }; } || {
    : >"$HOME/$mark"
    exit 1
  }
  unset -v TMPDIR
  export SLURM_OVERLAP=1 SLURM_OVERCOMMIT=1 SLURM_WORKING_DIR=/ SLURM_TIMELIMIT="$minutes"
  # shellcheck disable=SC2163 # NAME=VALUE
  [ -n "${SLURM_JOB_ID-}" ] || [ $# = 0 ] || export "$@"
}
