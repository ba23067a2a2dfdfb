# shellcheck shell=sh
# How long the prefix takes, and what the ordinary user can write there.
: "${prefix?}" "${user?}" "${build_user?}"

mount_before=$(date +%s%N)
cat "$prefix/current/generation.json" "$prefix/current/spider/"* >/dev/null 2>&1
own mount.read_ms $((($(date +%s%N) - mount_before) / 1000000))
if getent passwd "$user" >/dev/null && { [ "$(id -u)" = 0 ] || [ "$(id -un)" = "$user" ]; }; then
  # The first folder on the way that this user cannot enter.
  # shellcheck disable=SC2016 # the inner shell's
  mount_stopped=$( (as "$user" /bin/sh -c '
    way= rest=${1#/}/current/
    while [ -n "$rest" ]; do
      way=$way/${rest%%/*} rest=${rest#*/}
      if [ -d "$way" ] && ! [ -x "$way" ]; then echo "$way"; break; fi
    done
  ' sh "$prefix") )
  [ -z "$mount_stopped" ] || put mount.user_stopped "$(stat -c '%n %a %U:%G' "$mount_stopped")"
fi
if [ "$user" != "$build_user" ] && getent passwd "$user" >/dev/null && { [ "$(id -u)" = 0 ] || [ "$(id -un)" = "$user" ]; }; then
  # shellcheck disable=SC2016 # the inner shell's
  put mount.user_writes "$( (as "$user" /bin/sh -c '
    for path in "$1" "$1/store" "$1/generations" "$1/current/modules"; do [ ! -w "$path" ] || printf "%s " "$path"; done
  ' sh "$prefix") )"
fi
