# shellcheck shell=sh
# What a login shell that submits jobs does to them: SLURM_CONF, variables that Slurm's commands take for options, and plugins that change
# what is submitted. Behind batch.conf.sh. Nothing is asked in a job, or where there is no Slurm.
: "${submitting_conf?}"

if [ -z "${job?}" ] && [ -z "${SLURM_JOB_ID-}" ] && [ -n "$(command -v sbatch)" ]; then
  submitting_said=$(slurm_conf_fault "$submitting_conf")
  [ -z "$submitting_said" ] || put submitting.conf "$SLURM_CONF, which $submitting_said"
  env | LC_ALL=C grep -E '^(SLURM|SBATCH|SALLOC|SRUN)_[A-Z_]+=.{1,200}$' | LC_ALL=C sort | lines submitting.variables
  # shellcheck disable=SC2016 # the inner shell's
  with_limit 5 "${room?}/submitting" /bin/sh -c 'IFS=:; for folder in $MODULEPATH; do [ ! -d "$folder" ] || printf "%s\n" "$folder"; done'
  LC_ALL=C sort -u "$room/submitting" | lines submitting.folders
  submitting_file=${SLURM_CONF:-$submitting_conf}
  for submitting_name in CliFilterPlugins JobSubmitPlugins; do
    submitting_said=$(slurm_conf_value "$submitting_name" "$submitting_file")
    [ -z "$submitting_said" ] || put "submitting.plugins.$submitting_name" "$submitting_said"
    case ,$submitting_said, in
      *,lua,* | *,cli_filter/lua,* | *,job_submit/lua,*)
        case $submitting_name in C*) submitting_lua=cli_filter.lua ;; *) submitting_lua=job_submit.lua ;; esac
        submitting_lua=${submitting_file%/*}/$submitting_lua
        # Assignments, and no conditions: `options["export"] = …`, `job_desc.environment["A"] = …`.
        sed 's/--.*//' "$submitting_lua" 2>/dev/null |
          grep -n -E "[.\"'](export|environment)[]\"'[:space:]]*(\[[^]]*\][[:space:]]*)*=([^=]|\$)" | head -n 1 | sed "s|^\([0-9]*\):.*|$submitting_lua:\1|" |
          lines "submitting.line.$submitting_name"
        ;;
    esac
  done
fi
