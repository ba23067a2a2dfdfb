# shellcheck shell=sh
# What upstream.look.sh, in `upstream_look`, finds as the ordinary user; its arguments are this shell's.
: "${user?}" "${upstream_seconds?}" "${upstream_look?}"

upstream_mine() { "$@"; }
if [ "$(id -u)" = 0 ]; then upstream_mine() { as "$user" "$@"; }; fi
if [ "$(id -u)" = 0 ] && ! id -u "$user" >/dev/null 2>&1; then
  put upstream.user unknown
else
  with_limit "$upstream_seconds" "$0.upstream" upstream_mine /bin/sh -c "$upstream_look" sh "$@"
  sed -n '/^@upstream\./p' "$0.upstream"
fi
