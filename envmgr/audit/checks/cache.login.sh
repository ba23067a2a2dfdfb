# shellcheck shell=sh
# What Lmod says of caches in a login shell; behind lmod_config.sh.
: "${generation?}" "${prefix?}" "${room?}"

if [ -n "${LMOD_CMD-}" ] && lmod_config; then
  put cache.ignored "$(lmod_value configT.spdr_ignore)"
  put cache.loads "$(lmod_value configT.spdr_loads)"
  lmod_lines | sed -n 's/^cache\.[0-9]*\.1=//p' | LC_ALL=C sort -u | lines cache.folders
  case :${MODULEPATH-}: in *":$generation/modules:"* | *":$generation/modules/:"*) put cache.ours yes ;; esac
  case "
${lmod_config?}
" in *"=$generation/lmodrc.lua
"*) put cache.named yes ;; esac
  printf '%s\n' "${MODULEPATH-}" | tr : '\n' | grep '^/' | grep -v -F -e "$prefix/" >"$room/cache.tree"
  lmod_lines | sed -n -E 's/^cache\.([0-9]*)\.1=(.*)/\1 \2/p' | grep -v -F -e "$prefix/" -e "${HOME:-//}/" |
    while read -r cache_number cache_folder; do
      cache_file=$cache_folder/spiderT.luac_$(lmod_value configT.luaV | sed 's/^Lua //')
      [ -r "$cache_file" ] || cache_file=$cache_folder/spiderT.lua
      [ -r "$cache_file" ] || cache_file=
      cache_stamp=$(lmod_value "cache.$cache_number.2")
      if [ ! -d "$cache_folder" ]; then
        put "cache.state.$cache_folder" missing
      elif [ -z "$cache_file" ]; then
        put "cache.state.$cache_folder" empty
      elif [ -n "$cache_stamp" ] && [ -n "$(find "$cache_stamp" -newer "$cache_file" 2>/dev/null)" ]; then
        put "cache.state.$cache_folder" ignored
      else
        # shellcheck disable=SC2016 # the inner shell's
        with_limit 3 "$room/cache.newer" /bin/sh -c '
          while read -r folder; do
            grep -q -s -F -e "$folder" "$1" || continue # it is not of that folder
            find -L "$folder" -newer "$1" 2>/dev/null | head -n 1
          done <"$2" | head -n 1
        ' sh "$cache_file" "$room/cache.tree"
        cache_newer=$(cat "$room/cache.newer")
        [ -z "$cache_newer" ] || put "cache.state.$cache_folder" "behind $cache_newer"
      fi
    done
fi
