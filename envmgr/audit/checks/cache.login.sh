# shellcheck shell=sh
# What is wrong with caches of other tools that Lmod names in a login shell; behind lmod_config.sh.
: "${prefix?}" "${room?}"

if [ -n "${LMOD_CMD-}" ] && lmod_config; then
  # A cache that is behind hides modules from `module load` only where Lmod loads by it.
  case $(lmod_value configT.spdr_loads) in yes | true) cache_behind="cache.state." ;; *) cache_behind="cache.spider." ;; esac
  printf '%s\n' "${MODULEPATH-}" | tr : '\n' | grep '^/' | grep -v -F -e "$prefix/" >"$room/cache.tree"
  lmod_lines | sed -n -E 's/^cache\.([0-9]*)\.1=(.*)/\1 \2/p' | grep -v -F -e "$prefix/" -e "${HOME:-//}/" |
    while read -r cache_number cache_folder; do
      cache_file=$cache_folder/spiderT.luac_$(lmod_value configT.luaV | sed 's/^Lua //')
      [ -r "$cache_file" ] || cache_file=$cache_folder/spiderT.lua
      cache_stamp=$(lmod_value "cache.$cache_number.2")
      if [ ! -r "$cache_file" ]; then
        put "cache.state.$cache_folder" "there is no spiderT.lua that the user can read"
      elif [ -n "$cache_stamp" ] && [ -n "$(find "$cache_stamp" -newer "$cache_file" 2>/dev/null)" ]; then
        put "cache.state.$cache_folder" "it is older than its time stamp, so Lmod reads every modulefile"
      else
        # shellcheck disable=SC2016 # the inner shell's
        with_limit 3 "$room/cache.newer" /bin/sh -c '
          while read -r folder; do
            grep -q -s -F -e "$folder" "$1" || continue # it is not of that folder
            find -L "$folder" -newer "$1" 2>/dev/null | head -n 1
          done <"$2" | head -n 1
        ' sh "$cache_file" "$room/cache.tree"
        cache_newer=$(cat "$room/cache.newer")
        [ -z "$cache_newer" ] || put "$cache_behind$cache_folder" "it is older than $cache_newer: what is new there is not listed"
      fi
    done
fi
