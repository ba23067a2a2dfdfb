# shellcheck shell=sh
# The files of the published cache. Lmod compares whole seconds. Source: Lmod's src/Cache.lua, l_readCacheFile.
: "${generation?}"

if cd "$generation/spider" 2>/dev/null; then
  for cache_file in *; do
    [ ! -f "$cache_file" ] || printf '%s %s\n' "$(sum <"$cache_file" 2>/dev/null)" "$cache_file"
  done | lines cache.files
  cache_stamp=$(stat -c %Y timestamp 2>/dev/null)
  for cache_file in spiderT*; do
    [ "$(stat -c %Y "$cache_file" 2>/dev/null || echo 0)" -ge "${cache_stamp:-0}" ] || printf '%s\n' "$cache_file"
  done | lines cache.outdated
  cd /
else
  put cache.files ""
fi
