# A start of a shell that is traced: `+FILE:LINE<CALLER:LINE<CALLER:LINE: text`. Bash takes no PS4 from the environment for root: a bash that sets it
# reads the start-up files itself, in bash's order. Lmod silences traces of itself, but for LMOD_SH_DBG_ON.
: "${trace_end?}"
trace_ps4='+${BASH_SOURCE[0]-}:${LINENO}<${BASH_SOURCE[1]-}:${BASH_LINENO[0]-}<${BASH_SOURCE[2]-}:${BASH_LINENO[1]-}: '
trace_start='PS4=$0; BASH_XTRACEFD=9; set -x
if [ "$1" = login ] || [ "$1" = job ]; then
  . /etc/profile
  for file in ~/.bash_profile ~/.bash_login ~/.profile; do if [ -r "$file" ]; then . "$file"; break; fi; done
  if [ -r "${BASH_ENV-}" ]; then . "$BASH_ENV"; fi
else
  for file in /etc/bash.bashrc ~/.bashrc; do if [ -r "$file" ]; then . "$file"; fi; done
fi'
trace_run() { # ACCOUNT HOW
  trace_inside='' trace_job=''
  case $2 in interactive) trace_inside=-i ;; job) trace_job='SLURM_JOB_ID=1 SLURM_JOBID=1' ;; esac
  if [ "$2" = zsh ]; then
    as "$1" env LMOD_SH_DBG_ON=1 PS4='+%x:%I<${(j:<:)funcfiletrace}: ' /bin/sh -c 'exec zsh -o promptsubst -xl -c "$0" 2>&1 >/dev/null' "$trace_end"
  fi
  # shellcheck disable=SC2086 # the inner shell's; words or none
  as "$1" env LMOD_SH_DBG_ON=1 $trace_job /bin/sh -c 'exec 9>&1 >/dev/null 2>&1; exec /bin/bash --norc --noprofile "$@"' sh \
    $trace_inside -c "$trace_start
$trace_end" "$trace_ps4" "$2"
}
