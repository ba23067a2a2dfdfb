# The record that this node sees, and the files of that generation for modules that are not as it records them: lines `PATH: FAILED…` of
# sha256sum, and `PATH: OLDER` of a cache that is older than its time stamp, in whole seconds. Source: Lmod's src/Cache.lua, l_readCacheFile.
# Whether the path that the prefix was made for, if it is another one, leads to it.
: "${prefix?}" "${generation_made?}" "${link?}"
put generation.record "$(sum <"$prefix/$link/generation.json" 2>/dev/null)"
if cd "$prefix/$link" 2>/dev/null; then
  {
    sed -n -E 's@^ *"((modules|shims|spider)/[^"]*|lmodrc\.lua)": "([0-9a-f]{64})",?$@\3  \1@p' generation.json | LC_ALL=C sha256sum --check --quiet
    stat -c '%Y %n' spider/timestamp spider/spiderT* | awk 'NR == 1 { stamp = $1 } $1 < stamp { print $2 ": OLDER" }'
  } 2>/dev/null | head -n 20 | lines generation.differs
  cd /
fi
# shellcheck disable=SC3013 # dash, bash and busybox have it
[ -z "$generation_made" ] || if [ "$generation_made" -ef "$prefix" ]; then put generation.there yes; else put generation.there no; fi
