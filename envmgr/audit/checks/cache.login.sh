# What is wrong with caches of other tools that Lmod names in a login shell. It names them, in JSON, each as ["FOLDER","TIMESTAMP"].
: "${prefix?}" "${room?}"
if [ -n "${LMOD_CMD-}" ]; then
  for cache_path in /nonexistent "$PATH"; do # it asks programs for words on the system, which are not needed
    PATH=$cache_path "$LMOD_CMD" bash --no_redirect --config_json 2>&1 >/dev/null | tr -d '\\\n' >"$room/cache.config"
    IFS= read -r cache_said <"$room/cache.config"; case $cache_said in *'"spdr_loads":'*) break ;; esac
  done
  # A cache that is behind hides modules from `module load` only where Lmod loads by it.
  case $cache_said in *'"spdr_loads":"yes"'*) cache_behind="cache.state." ;; *) cache_behind="cache.spider." ;; esac
  awk -v prefix="$prefix/" -v home="${HOME:-//}/" 'match($0, /"cache":\[\["[^]]*"(\],\["[^]]*")*\]\]/) {
    count = split(substr($0, RSTART, RLENGTH), each, "\\[\"")
    for (i = 2; i <= count; i++) { sub(/"\].*/, "", each[i]); sub(/","/, "|", each[i]); if (!index(each[i], prefix) && !index(each[i], home)) print each[i] }
  }' "$room/cache.config" >"$room/cache.named"
  [ ! -s "$room/cache.named" ] || printf '%s\n' "${MODULEPATH-}" | tr : '\n' | grep '^/' | grep -v -F -e "$prefix/" >"$room/cache.tree"
  while IFS='|' read -r cache_folder cache_stamp; do
    for cache_file in "$cache_folder"/spiderT.luac_* "$cache_folder/spiderT.lua"; do [ ! -r "$cache_file" ] || break; done
    if [ ! -r "$cache_file" ]; then
      put "cache.state.$cache_folder" "there is no spiderT.lua that the user can read"
    elif [ -n "$cache_stamp" ] && [ -n "$(find "$cache_stamp" -newer "$cache_file" 2>/dev/null)" ]; then
      put "cache.state.$cache_folder" "it is older than its time stamp, so Lmod reads every modulefile"
    else
      with_limit 3 "$room/cache.newer" /bin/sh -c '
        while read -r folder; do
          grep -q -s -F -e "$folder" "$1" || continue # it is not of that folder
          find -L "$folder" -newer "$1" 2>/dev/null | head -n 1
        done <"$2" | head -n 1
      ' sh "$cache_file" "$room/cache.tree"
      ! read -r cache_newer <"$room/cache.newer" || put "$cache_behind$cache_folder" "it is older than $cache_newer: what is new there is not listed"
    fi
  done <"$room/cache.named"
fi
