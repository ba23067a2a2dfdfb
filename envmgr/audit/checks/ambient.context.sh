# shellcheck shell=sh
# What this shell brought along. Runs before any module is loaded. `ambient_names` are programs of entries; `ambient_without` is the
# folder that node-setup puts into PATH: other checks tell where it is missing. It starts few processes: every shell pays for them.
: "${ambient_names?}" "${ambient_without?}" "${ambient_passed?}" "${ambient_of_jobs?}"

ambient_path=:${path_brought-$PATH}:
case $ambient_path in
  *":$ambient_without:"*) ambient_path=${ambient_path%%":$ambient_without:"*}:${ambient_path#*":$ambient_without:"} ;;
esac
ambient_path=${ambient_path#:}
put ambient.PATH "${ambient_path%:}"
put ambient.loaded "${LOADEDMODULES-}"
if [ -z "${job?}" ]; then
  [ -z "${SLURM_JOB_ID-}" ] || put ambient.SLURM_JOB_ID "$SLURM_JOB_ID"
elif [ "${SLURM_JOB_ID-}" != "$job" ]; then
  put ambient.SLURM_JOB_ID "${SLURM_JOB_ID:-empty}"
fi
# What is exported: without what sessions, jobs and Lmod make each time, without functions; long values are cut. An empty variable means
# something only to POSIXLY_CORRECT. The host's own name and the job's number are the same words everywhere.
env | LC_ALL=C sed -n -E -e 's/^POSIXLY_CORRECT=$/&empty/' -e "/$ambient_passed/d" ${job:+-e "/$ambient_of_jobs/d"} -e 's/^((_JAVA|[A-Za-z])[A-Za-z0-9_]*=.{1,300}).*/\1/p' |
  nameless | sed -e '' ${job:+-e "s|\\([^0-9=]\\)$job\\([^0-9]\\)|\\1JOB\\2|g" -e "s|\\([^0-9=]\\)$job\$|\\1JOB|"} | LC_ALL=C sort | lines ambient.exported
# What the C library says of LANG and LC_*, in the words of locale(1).
# The plain ones are everywhere, and most shells' own.
ambient_said=
for ambient_name in "${LANG-}" "${LC_ALL-}" "${LC_CTYPE-}" "${LC_NUMERIC-}" "${LC_TIME-}" "${LC_COLLATE-}" "${LC_MONETARY-}" "${LC_MESSAGES-}"; do
  case $ambient_name in
    '' | C | POSIX | C.UTF-8) ;;
    *)
      ! command -v locale >/dev/null || ambient_said=$(locale 2>&1 >/dev/null | plain | head -n 1)
      break
      ;;
  esac
done
[ -z "$ambient_said" ] || put ambient.locale "${ambient_said#locale: } (LANG=${LANG-}, LC_ALL=${LC_ALL-})"
# A time zone is a file, or a rule such as CET-1CEST.
case ${TZ-} in
  '' | UTC | GMT | Etc/UTC | Etc/GMT | Universal | Zulu) ;;
  *)
    ambient_said=${TZ#:}
    case $ambient_said in /*) ;; *) ambient_said=/usr/share/zoneinfo/$ambient_said ;; esac
    [ -r "$ambient_said" ] || printf '%s\n' "$TZ" | grep -q -E '^(<[^>]+>|[A-Za-z]{3,})[-+]?[0-9]' || put ambient.zone "$TZ"
    ;;
esac
# Of a function only the name is printed, of a program its path.
ambient_found="
$(for ambient_name in $ambient_names; do command -v "$ambient_name" 2>/dev/null; done)
"
ambient_aliases="
$(alias 2>/dev/null)
"
for ambient_name in $ambient_names; do
  case $ambient_aliases in
    *"
$ambient_name="* | *"
alias $ambient_name="*)
      ambient_said=$(alias "$ambient_name")
      put "ambient.alias.$ambient_name" "${ambient_said#alias }"
      ;;
  esac
  case " ${ENVMGR_ALIASES-} " in # only names, of csh
    *" $ambient_name "*) put "ambient.alias.$ambient_name" "$ambient_name" ;;
  esac
  case $ambient_found in
    *"
$ambient_name
"*)
      # Where it was defined, which bash tells: `NAME LINE FILE`, and the file `environment` for one that was inherited.
      ambient_said=
      # shellcheck disable=SC3044,SC3045 # only bash is asked
      [ -z "${BASH_VERSION-}" ] || ambient_said=$(shopt -s extdebug 2>/dev/null && declare -F "$ambient_name")
      put "ambient.function.$ambient_name" "${ambient_said#"$ambient_name "}"
      ;;
  esac
done
