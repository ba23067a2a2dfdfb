# What the `module` command lists, by Lmod's caches and without them. Behind module_tool.sh.
: "${generation?}" "${room?}" "${alone?}"
case ${module_cmd:+$alone:${MODULEPATH-}:} in *":$generation/modules:"* | yes:*/*)
  module_visible >"$room/avail"
  if ! grep -q '^/[^ ]*:$' "$room/avail"; then
    put resolution.broken "$(grep . "$room/avail" | head -n 3 | cut -c1-200)"
  else
    lines resolution.avail <"$room/avail"
    [ -z "${LMOD_CMD-}" ] || module_ask -t --ignore_cache avail | diff "$room/avail" - | grep '^[<>]' | head -n 20 | lines resolution.cache_differs
  fi ;;
esac
