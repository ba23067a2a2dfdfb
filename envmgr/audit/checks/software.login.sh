# The first program of each entry is found, and starts, once the entry is loaded in a clean environment: ENTRY PROGRAM pairs.
: "${generation?}" "${room?}" "${user?}" "${software_limit?}"
software_inside='bash csh zsh' # once
case ${LMOD_CMD:+:${MODULEPATH-}:} in *":$generation/modules:"*) ;; *) set -- ;; esac
while [ $# -gt 0 ]; do
  env -i HOME="$HOME" USER="$user" PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 MODULEPATH="$MODULEPATH" \
    LMOD_RC="${LMOD_RC-}" LMOD_CACHED_LOADS=yes LMOD_SHORT_TIME=86400 LMOD_TERM_WIDTH=80 ENVMGR_USAGE=no HISTFILE="$room/history" /bin/sh -c '
      cd / && text=$("$1" sh load "$2" 2>/dev/null) && eval "$text" || exit 200
      command -v "${3##*/}"
      # What a shell that is started with the entry loaded makes of it: csh, zsh and a bash at a terminal read a file each time.
      for shell in $5; do
        command -v "$shell" >/dev/null || continue
        case $shell in # which leave no history
          bash) options=-ic before="set +o history; history -c; " ;;
          csh) options=-c before="unset savehist savedirs; " ;;
          *) options=-c before= ;;
        esac
        echo "@$shell $(timeout -k 1 "$4" "$shell" "$options" "${before}exec /bin/sh -c \"command -v ${3##*/} || echo none\"" 2>/dev/null | tail -n 1)"
      done
      HOME=$6 exec timeout -k 1 "$4" "${3##*/}" --version
    ' sh "$LMOD_CMD" "$1" "$2" "$software_limit" "$software_inside" "$room" </dev/null >"$room/started" 2>"$room/said"
  software_status=$?
  read -r software_found <"$room/started" || software_found=
  put "software.found.$1" "${software_found##@*}"
  put "software.status.$1" "$software_status"
  [ "$software_status" -lt 126 ] || put "software.said.$1" "$(plain <"$room/said" | grep . | tail -n 1 | cut -c1-200)"
  [ -z "$software_inside" ] || sed -n "s/^@\([a-z]*\) \(..*\)/@${mark?}software.inside.\1=\2/p" "$room/started"
  software_inside=
  shift 2
done
