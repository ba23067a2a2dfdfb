# shellcheck shell=sh
# The record that this node sees; whether the path that the prefix was made for, if it is another one, leads to it.
: "${prefix?}" "${generation_made?}" "${link?}"

put generation.record "$(sum <"$prefix/$link/generation.json" 2>/dev/null)"
if [ -n "$generation_made" ]; then
  # shellcheck disable=SC3013 # dash, bash and busybox have it
  if [ "$generation_made" -ef "$prefix" ]; then put generation.there yes; else put generation.there no; fi
fi
