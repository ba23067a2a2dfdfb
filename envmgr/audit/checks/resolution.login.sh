# shellcheck shell=sh
# What the `module` command lists and finds. Behind module_tool.sh and lmod_config.sh.
: "${generation?}" "${samples?}" "${room?}" "${alone?}"
here=

listed=
case $alone:${MODULEPATH-}: in *":$generation/modules:"* | yes:*/*) listed=yes ;; esac
if [ -n "${module_cmd?}" ] && [ -n "$listed" ]; then
  here=$room
  module_all >"$here/avail"
fi
if [ -n "$here" ] && ! grep -q '^/[^ ]*:$' "$here/avail"; then
  put resolution.broken "$(grep . "$here/avail" | head -n 3 | cut -c1-200)"
elif [ -n "$here" ]; then
  if [ -n "${LMOD_CMD-}" ]; then module_ask -t --show_hidden --ignore_cache avail >"$here/plain"; else cp "$here/avail" "$here/plain"; fi
  put resolution.modulepath "$MODULEPATH"
  lines resolution.avail <"$here/avail"
  diff "$here/avail" "$here/plain" | grep '^[<>]' | head -n 20 | lines resolution.cache_differs
  if ! cmp -s "$here/avail" "$here/plain" && lmod_config; then
    lmod_lines | sed -n -E 's/^cache\.[0-9]+\.1=//p' | grep -v -F -e "${prefix?}/" | lines resolution.caches
  fi
  module_visible >"$here/visible"
  grep -v -x -F -f "$here/visible" "$here/avail" | lines resolution.hidden
  module_defaults | lines resolution.defaults
  for entry in $samples; do
    path=$(module_ask --location show "$entry" | grep .)
    path=$(printf '%s\n' "$path" | grep '^/' || printf '%s\n' "$path" | head -n 1)
    put "resolution.path.$entry" "$path"
    case $path in
      /*)
        put "resolution.real.$entry" "$(readlink -f "$path")"
        put "resolution.sha256.$entry" "$(sum <"$path" 2>/dev/null)"
        ;;
    esac
  done
fi
