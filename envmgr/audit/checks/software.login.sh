# shellcheck shell=sh
# The first program of each entry is found, and starts, once the entry is loaded in a clean environment: ENTRY PROGRAM pairs.
: "${generation?}" "${room?}" "${user?}"

listed=
case :${MODULEPATH-}: in *":$generation/modules:"*) listed=yes ;; esac
if [ -n "${LMOD_CMD-}" ] && [ -n "$listed" ]; then
  while [ $# -gt 0 ]; do
    # shellcheck disable=SC2016 # the inner shell's
    env -i HOME="$HOME" USER="$user" PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 MODULEPATH="$MODULEPATH" \
      LMOD_RC="${LMOD_RC-}" LMOD_CACHED_LOADS=yes /bin/sh -c '
        cd / && text=$("$1" sh load "$2" 2>/dev/null) && eval "$text" || exit 200
        command -v "${3##*/}"
        exec timeout -k 1 "$4" "${3##*/}" --version
      ' sh "$LMOD_CMD" "$1" "$2" "${software_limit?}" </dev/null >"$room/started" 2>"$room/said"
    software_status=$?
    read -r software_found <"$room/started" || software_found=
    put "software.found.$1" "$software_found"
    put "software.status.$1" "$software_status"
    if [ "$software_status" -ge 126 ]; then
      put "software.said.$1" "$(grep . "$room/said" | tail -n 1 | cut -c1-200)"
    fi
    # What a shell that is started with the entry loaded makes of PATH: csh and zsh read a file each time, bash none.
    if [ -z "${software_inside-}" ] && [ "$software_found" = "$2" ]; then
      software_inside=yes
      for software_shell in csh zsh; do
        command -v "$software_shell" >/dev/null || continue
        # shellcheck disable=SC2016 # the inner shells'
        software_said=$(env -i HOME="$HOME" USER="$user" PATH="${2%/*}:/usr/local/bin:/usr/bin:/bin" LANG=C.UTF-8 \
          MODULEPATH="$MODULEPATH" LMOD_RC="${LMOD_RC-}" LOADEDMODULES="$1" timeout -k 1 "$software_limit" \
          "$software_shell" -c "/bin/sh -c 'command -v ${2##*/}'" </dev/null 2>/dev/null | tail -n 1)
        put "software.inside.$software_shell" "$software_said"
      done
    fi
    shift 2
  done
fi
