# Whether the prefix answers. Touching `current` makes autofs mount what is not there yet. Names come from an attribute cache
# for a while; opening a file asks the server. Where nothing is published (`alone`), any answer is a good one.
: "${prefix?}" "${alone?}" "${link?}"
# never: nothing was ever published there, by what is seen: no folder, or one without generations; no mount that may be missing here, and no
# file of node-setup's for it, which comes after a publish.
never() { grep -s -q -F -e "$prefix" /etc/envmgr/node/settings /etc/fstab /etc/auto.* /etc/auto.master.d/* || put never yes; }
if ! said=$(LC_ALL=C ls -d "$prefix/." 2>&1 >/dev/null); then
  said=$(printf '%s\n' "$said" | plain)
  gate=${said##*: }
  [ "$gate" != "No such file or directory" ] || never
elif target=$(readlink "$prefix/$link"); then
  head -c 1 "$prefix/$link/generation.json" >/dev/null 2>&1
  real=$(cd -P "$prefix" && pwd)
  [ "$real" = "$prefix" ] || put real "$real"
  gate=ok
  put current "$target"
else
  if [ -r "$prefix" ] && [ -x "$prefix" ] && [ ! -e "$prefix/generations" ]; then never; fi
  [ ! -r "$prefix" ] || [ -n "$(ls -A "$prefix")" ] || put empty yes
  gate="no link $prefix/$link"
fi
if [ -n "$alone" ]; then gate=ok; fi
put gate "$gate"
