# shellcheck shell=sh
# Whether the prefix answers. Touching `current` makes autofs mount what is not there yet. Names come from an attribute cache
# for a while; opening a file asks the server. Where nothing is published (`alone`), any answer is a good one.
: "${prefix?}" "${alone?}"

if ! said=$(ls -d "$prefix/." 2>&1 >/dev/null); then
  said=$(printf '%s\n' "$said" | plain)
  [ -e "$prefix" ] || put never yes
  gate=${said##*: }
elif target=$(readlink "$prefix/current"); then
  head -c 1 "$prefix/current/generation.json" >/dev/null 2>&1
  real=$(cd -P "$prefix" && pwd)
  [ "$real" = "$prefix" ] || put real "$real"
  gate=ok
  put current "$target"
else
  [ -e "$prefix/generations" ] || put never yes
  gate="no link $prefix/current"
fi
if [ -n "$alone" ]; then gate=ok; fi
put gate "$gate"
