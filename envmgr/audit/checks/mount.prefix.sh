# shellcheck shell=sh
# How long the prefix takes, and what the ordinary user can write there.
: "${prefix?}" "${user?}" "${build_user?}"

mount_before=$(date +%s%N)
cat "$prefix/current/generation.json" "$prefix/current/spider/"* >/dev/null 2>&1
own mount.read_ms $((($(date +%s%N) - mount_before) / 1000000))
if [ "$user" != "$build_user" ] && getent passwd "$user" >/dev/null && { [ "$(id -u)" = 0 ] || [ "$(id -un)" = "$user" ]; }; then
  # shellcheck disable=SC2016 # the inner shell's
  put mount.user_writes "$( (as "$user" /bin/sh -c '
    for path in "$1" "$1/store" "$1/generations" "$1/current/modules"; do [ ! -w "$path" ] || printf "%s " "$path"; done
  ' sh "$prefix") )"
fi
