# How long the prefix takes, and what the ordinary user can write there.
: "${prefix?}" "${user?}" "${build_user?}"

mount_before=$(date +%s%N)
# Its own line of schedstat, read last: for how long it waited for a processor, which is the node's time and not the mount's.
mount_queued=$(cat "$prefix/current/generation.json" "$prefix/current/spider/"* /proc/self/schedstat 2>/dev/null | tail -n 1 | cut -d' ' -f2)
case $mount_queued in '' | *[!0-9]*) mount_queued=0 ;; esac
own mount.read_ms $((($(date +%s%N) - mount_before - mount_queued) / 1000000))
if getent passwd "$user" >/dev/null && { [ "$(id -u)" = 0 ] || [ "$(id -un)" = "$user" ]; }; then
  # The first folder on the way that this user cannot enter.
  mount_stopped=$( (as "$user" /bin/sh -c '
    way= rest=${1#/}/current/
    while [ -n "$rest" ]; do
      way=$way/${rest%%/*} rest=${rest#*/}
      if [ -d "$way" ] && ! [ -x "$way" ]; then echo "$way"; break; fi
    done
  ' sh "$prefix") )
  [ -z "$mount_stopped" ] || put mount.user_stopped "$(stat -c '%a %U:%G %n' "$mount_stopped")"
fi
if [ "$user" != "$build_user" ] && getent passwd "$user" >/dev/null && { [ "$(id -u)" = 0 ] || [ "$(id -un)" = "$user" ]; }; then
  put mount.user_writes "$( (as "$user" /bin/sh -c '
    for path in "$1" "$1/store" "$1/generations" "$1/current/modules"; do [ ! -w "$path" ] || printf "%s " "$path"; done
  ' sh "$prefix") )"
fi
