# What outside.look.sh, in `outside_look`, finds as the ordinary user; its arguments are this shell's.
: "${outside_seconds?}" "${outside_look?}"

look_as_user outside "$outside_seconds" "$outside_look" "$@" || put outside.user unknown
