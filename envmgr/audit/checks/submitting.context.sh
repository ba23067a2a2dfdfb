# shellcheck shell=sh
# Aliases and functions that give Slurm's commands an --export of their own: `NAME VALUE FILE:LINE`, as bash tells where a function is.

submitting_found=$(command -v sbatch && command -v srun && command -v salloc)
case $submitting_found in
  '' | /*"
/"*"
/"*) ;;
  *)
    for submitting_name in sbatch srun salloc; do
      # shellcheck disable=SC3044 # of shells that have functions to print
      submitting_found=$({ alias "$submitting_name" || typeset -f "$submitting_name"; } 2>/dev/null |
        sed -n -E "s/.*--export[= ]([^ '\"]*).*/\1/p" | head -n 1)
      # shellcheck disable=SC3044,SC3045 # only bash is asked
      submitting_place=$([ -z "${BASH_VERSION-}" ] || { shopt -s extdebug && declare -F "$submitting_name"; } 2>/dev/null | sed 's/^[^ ]* \([0-9]*\) \(.*\)/\2:\1/')
      [ -z "$submitting_found" ] || printf '%s %s %s\n' "$submitting_name" "$submitting_found" "$submitting_place"
    done | lines submitting.renamed
    ;;
esac
