# shellcheck shell=sh
# What upstream.look.sh, in `upstream_look`, finds as the ordinary user; its arguments are this shell's.
: "${upstream_seconds?}" "${upstream_look?}"

look_as_user upstream "$upstream_seconds" "$upstream_look" "$@" || put upstream.user unknown
