# shellcheck shell=sh
# Lines `SHA256 PATH`, in the order in which Lmod reads them; behind lmod_config.sh.
: "${generation?}" "${prefix?}"

rc_real() { (command cd -P -- "${1%/*}" 2>/dev/null && printf '%s/%s\n' "$PWD" "${1##*/}") || printf '%s\n' "$1"; }
rc_line() { printf '%s %s\n' "$(sum <"$1" 2>/dev/null)" "$2"; }
if [ -n "${LMOD_CMD-}" ] && lmod_config; then
  rc_own=$(rc_real "${LMOD_CMD%/*}/../init/lmodrc.lua")
  put rc_files.lmod "$(lmod_value configT.lmodV)"
  lmod_lines | sed -n 's/^rcfileA\.\([0-9]*\)=/\1 /p' | LC_ALL=C sort -n | while read -r _ rc_file; do
    case $(rc_real "$rc_file") in
      "$HOME/.lmodrc.lua" | "$(rc_real "$HOME/.lmodrc.lua")") ;;
      "$rc_own") rc_line "$rc_own" init/lmodrc.lua ;;
      *)
        case $rc_file in
          */libexec/../../*) rc_line "$rc_file" "$(rc_real "$rc_file")" ;;
          *) rc_line "$rc_file" "$rc_file" ;;
        esac
        ;;
    esac
  done | lines rc_files.read
  put rc_files.variable "${LMOD_RC-}"
  {
    lmod_value configT.modRC | tr : '\n'
    printf '%s\n' "${MODULEPATH-}" | tr : '\n' | sed 's|//*$||' | grep . | LC_ALL=C sort -u | while read -r rc_folder; do
      case $rc_folder in
        "$prefix"/*) ;;
        *) printf '%s\n' "$rc_folder/.modulerc.lua" "$rc_folder/.modulerc" "$rc_folder/.version" ;;
      esac
    done
  } | while read -r rc_file; do
    [ ! -f "$rc_file" ] || rc_line "$rc_file" "$rc_file"
  done | lines rc_files.modulerc
  case :${MODULEPATH-}: in *":${generation:-/none}/modules:"* | *":${generation:-/none}/modules/:"*) put rc_files.ours yes ;; esac
fi
