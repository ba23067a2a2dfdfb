# How long the prefix takes, and what the ordinary user can write there.
: "${prefix?}" "${user?}" "${build_user?}"
mount_before=$(date +%s%N)
# Its own line of schedstat, read last: for how long it waited for a processor, which is the node's time and not the mount's.
mount_queued=$(cat "$prefix/current/generation.json" "$prefix/current/spider/"* /proc/self/schedstat 2>/dev/null | tail -n 1 | cut -d' ' -f2)
case $mount_queued in '' | *[!0-9]*) mount_queued=0 ;; esac
own mount.read_ms $((($(date +%s%N) - mount_before - mount_queued) / 1000000))
# The first folder on the way that this user cannot enter.
look_as_user mount 5 '
  way= rest=${1#/}/current/ writes=
  while [ -n "$rest" ]; do
    way=$way/${rest%%/*} rest=${rest#*/}
    if [ -d "$way" ] && ! [ -x "$way" ]; then stat -c "@mount.user_stopped=%a %U:%G %n" "$way" && break; fi
  done
  [ "$2" = "$3" ] || for path in "$1" "$1/store" "$1/generations" "$1/current/modules"; do [ ! -w "$path" ] || writes="$writes$path "; done
  echo "@mount.user_writes=$writes"' "$prefix" "$user" "$build_user"
