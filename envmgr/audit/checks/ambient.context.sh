# shellcheck shell=sh
# What this shell brought along. Runs before any module is loaded. `ambient_names` are programs of entries; `ambient_without` is the
# folder that node-setup puts into PATH: other checks tell where it is missing. It starts few processes: every shell pays for them.
: "${ambient_names?}" "${ambient_without?}"

for ambient_name in PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT BASH_ENV CONDA_EXE CONDA_PREFIX VIRTUAL_ENV; do
  eval "[ -z \"\${$ambient_name:+set}\" ] || put ambient.\$ambient_name \"\$$ambient_name\""
done
ambient_path=:${path_brought-$PATH}:
case $ambient_path in
  *":$ambient_without:"*) ambient_path=${ambient_path%%":$ambient_without:"*}:${ambient_path#*":$ambient_without:"} ;;
esac
ambient_path=${ambient_path#:}
put ambient.PATH "${ambient_path%:}"
put ambient.loaded "${LOADEDMODULES-}"
# A function is told by its name alone, a program by its path.
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
  case " ${ENVMGR_ALIASES-} " in # names alone, of csh
    *" $ambient_name "*) put "ambient.alias.$ambient_name" "$ambient_name" ;;
  esac
  case $ambient_found in
    *"
$ambient_name
"*)
      # Where it was defined, which bash tells: `NAME LINE FILE`, and the file `environment` for one that was inherited.
      ambient_said=
      # shellcheck disable=SC3044,SC3045 # asked of bash alone
      [ -z "${BASH_VERSION-}" ] || ambient_said=$(shopt -s extdebug 2>/dev/null && declare -F "$ambient_name")
      put "ambient.function.$ambient_name" "${ambient_said#"$ambient_name "}"
      ;;
  esac
done
if [ -n "${TMPDIR-}" ] && ! [ -w "$TMPDIR" ]; then put ambient.tmp "TMPDIR is $TMPDIR"; elif ! [ -w /tmp ]; then put ambient.tmp /tmp; fi
case ${HOME-} in
  /nonexistent | / | '') ;; # an account that is none of a person
  *) if ! [ -d "$HOME" ]; then put ambient.home "is not there"; elif ! [ -w "$HOME" ]; then put ambient.home "cannot be written"; fi ;;
esac
