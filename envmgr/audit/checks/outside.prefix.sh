# shellcheck shell=sh
# What outside.look.sh, in `outside_look`, finds as the ordinary user; its arguments are this shell's.
: "${user?}" "${outside_seconds?}" "${outside_look?}"

outside_mine() { "$@"; }
if [ "$(id -u)" = 0 ]; then outside_mine() { as "$user" "$@"; }; fi
if [ "$(id -u)" = 0 ] && ! id -u "$user" >/dev/null 2>&1; then
  put outside.user unknown
else
  with_limit "$outside_seconds" "$0.outside" outside_mine /bin/sh -c "$outside_look" sh "$@"
  sed -n '/^@outside\./p' "$0.outside"
fi
