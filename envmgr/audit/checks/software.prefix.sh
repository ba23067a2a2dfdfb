# shellcheck shell=sh
# What software.look.sh, in `software_look`, finds as the ordinary user; its arguments are this shell's.
: "${user?}" "${software_seconds?}" "${software_look?}"

software_mine() { "$@"; }
if [ "$(id -u)" = 0 ]; then software_mine() { as "$user" "$@"; }; fi
if [ "$(id -u)" = 0 ] && ! id -u "$user" >/dev/null 2>&1; then
  put software.user unknown
else
  with_limit $((software_seconds + 2)) "$0.look" software_mine /bin/sh -c "$software_look" sh "$software_seconds" "$@"
  sed -n '/^@software\./p' "$0.look"
fi
