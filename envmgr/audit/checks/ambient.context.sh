# shellcheck shell=sh
# What this shell brought along. Runs before any module is loaded. `ambient_names` are programs of entries.
: "${ambient_names?}"

for ambient_name in PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT BASH_ENV CONDA_PREFIX VIRTUAL_ENV; do
  eval "[ -z \"\${$ambient_name:+set}\" ] || put ambient.\$ambient_name \"\$$ambient_name\""
done
put ambient.PATH "$PATH"
put ambient.loaded "${LOADEDMODULES-}"
for ambient_name in $ambient_names; do
  ambient_said=$(alias "$ambient_name" 2>/dev/null)
  if [ -n "$ambient_said" ]; then
    put "ambient.alias.$ambient_name" "${ambient_said#alias }"
  else
    case " ${ENVMGR_ALIASES-} " in *" $ambient_name "*) put "ambient.alias.$ambient_name" "$ambient_name" ;; esac
  fi
  if [ "$(command -v "$ambient_name" 2>/dev/null)" = "$ambient_name" ]; then
    # Where it was defined, which bash tells: `NAME LINE FILE`, and the file `environment` for one that was inherited.
    ambient_said=
    # shellcheck disable=SC3044,SC3045 # asked of bash alone
    [ -z "${BASH_VERSION-}" ] || ambient_said=$(shopt -s extdebug 2>/dev/null && declare -F "$ambient_name")
    put "ambient.function.$ambient_name" "${ambient_said#"$ambient_name "}"
  fi
done
if [ -n "${TMPDIR-}" ] && ! [ -w "$TMPDIR" ]; then put ambient.tmp "TMPDIR is $TMPDIR"; elif ! [ -w /tmp ]; then put ambient.tmp /tmp; fi
case ${HOME-} in
  /nonexistent | / | '') ;; # an account that is none of a person
  *) if ! [ -d "$HOME" ]; then put ambient.home "is not there"; elif ! [ -w "$HOME" ]; then put ambient.home "cannot be written"; fi ;;
esac
