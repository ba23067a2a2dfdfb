# shellcheck shell=bash
# For the login shell that submits: `envmgr_entry`, or else the first module that there is, is loaded as a user does before sbatch. The
# job gets what this shell then has as WANTED_NAME, whatever Slurm passes on. Lmod writes no cache of its own.
: "${envmgr_entry?}"
envmgr_prepare() {
  envmgr_before=:$PATH:
  if [ -z "$envmgr_entry" ]; then
    envmgr_entry=$(LMOD_SHORT_TIME=86400 module -t avail 2>&1 | PATH=/usr/bin:/bin command sed -n -E 's/\([A-Z:a-z]*\)$//; /^[A-Za-z0-9_+.-]+\/[A-Za-z0-9_+.\/-]*[^\/]$/p' | PATH=/usr/bin:/bin command head -n 1)
  fi
  [ -z "$envmgr_entry" ] || LMOD_SHORT_TIME=86400 ENVMGR_USAGE=no module load "$envmgr_entry" >/dev/null 2>&1
  export ENVMGR_CANARY=arrived
  local envmgr_added='' IFS=:
  for envmgr_part in $PATH; do
    case $envmgr_before in *":$envmgr_part:"*) ;; *) envmgr_added=${envmgr_added:+$envmgr_added:}$envmgr_part ;; esac
  done
  printf -v envmgr_wanted 'export WANTED_%s=%q\n' MODULEPATH "${MODULEPATH-}" LOADEDMODULES "${LOADEDMODULES-}" \
    PATH "$envmgr_added" ENVMGR_CANARY "$ENVMGR_CANARY"
  envmgr_script=${envmgr_script%%$'\n'*}$'\n'$envmgr_wanted${envmgr_script#*$'\n'}
}
